/* The turns of servers on which counting GPUs decides: the common case of `decision.py`, `swaps.py` and `turns.py`
 * in C, with the same answers. */

#include "../../native.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define EPSILON 1e-9
#define MOST_GPUS 62 /* of a server: a mask of devices is one number */

/* A number of a list, at a row of another; -1 with an error if there is none. */
static long item_of(PyObject *list, PyObject *row)
{
    Py_ssize_t at = number(row, list);
    return at < 0 ? -1 : PyLong_AsLong(PyList_GET_ITEM(list, at));
}

/* The `count` lowest of the bits that are set; 0 if there are fewer. */
static uint64_t lowest(uint64_t bits, long count)
{
    uint64_t rest = bits;
    for (; count > 0; count--) {
        if (!rest)
            return 0;
        rest &= rest - 1;
    }
    return bits ^ rest;
}

/* The devices in `mask` of a node, which begin at `first`, borrowed: one tuple for all who get them. */
static PyObject *devices_in(PyObject *known, uint64_t mask, long first)
{
    PyObject *key = PyLong_FromUnsignedLongLong(mask);
    PyObject *devices = key ? PyDict_GetItemWithError(known, key) : NULL;
    if (key && !devices && !PyErr_Occurred()) {
        devices = PyTuple_New(__builtin_popcountll(mask));
        for (Py_ssize_t i = 0; devices && mask; i++, mask &= mask - 1) {
            PyObject *device = PyLong_FromLong(first + __builtin_ctzll(mask));
            if (device)
                PyTuple_SET_ITEM(devices, i, device);
            else
                Py_CLEAR(devices);
        }
        if (devices) {
            int failed = PyDict_SetItem(known, key, devices) < 0;
            Py_DECREF(devices);
            if (failed)
                devices = NULL;
        }
    }
    Py_XDECREF(key);
    return devices;
}

/* A grant of `devices` to `row`, otherwise as `whole`. */
static PyObject *grant_like(PyObject *whole, PyObject *row, PyObject *devices)
{
    Py_ssize_t fields = PyTuple_GET_SIZE(whole);
    PyObject *grant = Py_TYPE(whole)->tp_alloc(Py_TYPE(whole), fields);
    if (!grant)
        return NULL;
    PyTuple_SET_ITEM(grant, 0, Py_NewRef(row));
    PyTuple_SET_ITEM(grant, 1, Py_NewRef(devices));
    for (Py_ssize_t field = 2; field < fields; field++)
        PyTuple_SET_ITEM(grant, field, Py_NewRef(PyTuple_GET_ITEM(whole, field)));
    return grant;
}

/* Append to `grants` one of `devices` to `row`: the very one that it was given last, if that was the same. */
static int give(PyObject *grants, PyObject *grant_of, PyObject *whole, PyObject *row, PyObject *devices)
{
    PyObject *grant = PyDict_GetItemWithError(grant_of, row);
    if (!grant && PyErr_Occurred())
        return 0;
    if (grant && DEVICES_OF(grant) == devices)
        return PyList_Append(grants, grant) == 0;
    grant = grant_like(whole, row, devices);
    int failed = !grant || PyDict_SetItem(grant_of, row, grant) < 0 || PyList_Append(grants, grant) < 0;
    Py_XDECREF(grant);
    return !failed;
}

typedef struct {
    PyObject *circle, *sizes;
    Py_ssize_t count, taken;
    PyObject **rows; /* those whose turn it is */
    Py_ssize_t left;
    PyObject **others;
} Turn;

/* Whose turn it is: they go to the tail of the circle, unless everybody runs. */
static int walk(Turn *turn, long gpus)
{
    for (Py_ssize_t i = 0; i < turn->count; i++) {
        PyObject *row = PyList_GET_ITEM(turn->circle, i);
        long size = item_of(turn->sizes, row);
        if (size < 0)
            return 0;
        if (size <= gpus) {
            gpus -= size;
            turn->rows[turn->taken++] = row;
        } else {
            turn->others[turn->left++] = row;
        }
    }
    if (!turn->left)
        return 1;
    for (Py_ssize_t i = 0; i < turn->left; i++)
        PyList_SET_ITEM(turn->circle, i, turn->others[i]);
    for (Py_ssize_t i = 0; i < turn->taken; i++)
        PyList_SET_ITEM(turn->circle, turn->left + i, turn->rows[i]);
    return 1;
}

/* All that the turns of one moment are taken with: what `take_turns` is given. */
typedef struct {
    PyObject *homes, *left, *moved, *end_of, *ends, *end_s;
    double now;
    PyObject *sizes, *whole, *held, *free, *first, *devices_of, *grant_of, *model, *grants, *leaving;
    const double *use; /* per row; NULL if nobody is put beside others, or nobody knows */
    Py_ssize_t used;
    int packs;
} Turns;

/* Devices for those who come, of those that are free on `node` and those that others leave; who leaves is appended
 * to `leaving`.  Returns how many come; -1 with an error. */
static Py_ssize_t seat(const Turns *turns, const Turn *turn, Py_ssize_t node)
{
    PyObject *known = PyList_GET_ITEM(turns->devices_of, node);
    long first = PyLong_AsLong(PyList_GET_ITEM(turns->first, node));
    uint64_t bits = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(turns->free, node));
    for (Py_ssize_t i = 0; i < turn->left; i++) {
        PyObject *row = turn->others[i], *grant = PyDict_GetItemWithError(turns->held, row);
        if (!grant) {
            if (PyErr_Occurred())
                return -1;
            continue;
        }
        PyObject *devices = DEVICES_OF(grant);
        for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(devices); at++) {
            long place = PyLong_AsLong(PyTuple_GET_ITEM(devices, at)) - first;
            if (place < 0 || place >= MOST_GPUS) {
                PyErr_Format(PyExc_ValueError, "device %ld is none of node %zd", first + place, node);
                return -1;
            }
            bits |= (uint64_t)1 << place;
        }
        if (PyList_Append(turns->leaving, row) < 0)
            return -1;
    }
    Py_ssize_t come = 0;
    for (Py_ssize_t i = 0; i < turn->taken; i++) {
        PyObject *row = turn->rows[i];
        int runs = PyDict_Contains(turns->held, row);
        if (runs < 0)
            return -1;
        if (runs)
            continue;
        come++;
        uint64_t mask = lowest(bits, item_of(turns->sizes, row));
        if (!mask)
            continue;
        bits ^= mask;
        PyObject *devices = devices_in(known, mask, first);
        if (!devices || !give(turns->grants, turns->grant_of, turns->model, row, devices))
            return -1;
    }
    return PyErr_Occurred() ? -1 : come;
}

static PyObject *NODES, *GPUS, *DEMAND, *CIRCLE, *PAIRS, *TURN_ENDS, *IDLE_SINCE; /* keys of a home */

/* A number that a home has under `key`; NaN, which compares as false, if it has none. */
static double number_of(PyObject *home, PyObject *key)
{
    PyObject *value = PyDict_GetItemWithError(home, key);
    return value ? PyFloat_AsDouble(value) : NAN;
}

/* True if counting decides for all in `circle`, and no two of them are to be put together. */
static int is_plain(const Turns *turns, PyObject *circle, double room)
{
    int leave_some = 0, may_pair = turns->packs && room < -EPSILON;
    if (may_pair && !turns->use)
        return 0;
    if (!may_pair && turns->whole == Py_None)
        return 1;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(circle); i++) {
        PyObject *key = PyList_GET_ITEM(circle, i);
        Py_ssize_t row = PyLong_CheckExact(key) ? PyLong_AsSsize_t(key) : -1;
        if (row < 0)
            return 0;
        if (turns->whole != Py_None
            && (row >= PyList_GET_SIZE(turns->whole) || PyList_GET_ITEM(turns->whole, row) != Py_True))
            return 0;
        if (may_pair && (row >= turns->used || (turns->use[row] < 1.0 && ++leave_some == 2)))
            return 0;
    }
    return 1;
}

/* Note in the home, and among the ends of turns, when the turn of `turn->taken` jobs ends. */
static int note_turn(const Turns *turns, PyObject *key, PyObject *home, const Turn *turn, PyObject *never)
{
    if (turn->taken == turn->count)
        return PyDict_SetItem(home, TURN_ENDS, never) == 0;
    PyObject *keys = PyDict_GetItemWithError(turns->ends, turns->end_s);
    if (!keys) {
        keys = PyErr_Occurred() ? NULL : PySet_New(NULL);
        int failed = !keys || PyDict_SetItem(turns->ends, turns->end_s, keys) < 0;
        Py_XDECREF(keys);
        if (failed)
            return 0;
    }
    return PySet_Add(keys, key) == 0 && PyDict_SetItem(turns->end_of, key, turns->end_s) == 0
           && PyDict_SetItem(home, TURN_ENDS, turns->end_s) == 0;
}

/* The turn of the home `key`, if it is one of the common case: 1 if it is taken, 0 if not, -1 with an error. */
static int take_one(const Turns *turns, PyObject *key, PyObject *never)
{
    PyObject *home = PyDict_GetItemWithError(turns->homes, key);
    if (!home || !PyDict_Check(home) || PyDict_Contains(turns->end_of, key) != 0)
        return 0;
    PyObject *nodes = PyDict_GetItemWithError(home, NODES), *circle = PyDict_GetItemWithError(home, CIRCLE);
    PyObject *pairs = PyDict_GetItemWithError(home, PAIRS), *size = PyDict_GetItemWithError(home, GPUS);
    if (!nodes || !circle || !pairs || !size || !PyList_Check(nodes) || PyList_GET_SIZE(nodes) != 1)
        return 0;
    if (!PyList_Check(circle) || !PyDict_Check(pairs) || PyDict_GET_SIZE(pairs))
        return 0;
    Py_ssize_t node = PyLong_AsSsize_t(PyList_GET_ITEM(nodes, 0));
    long gpus = PyLong_AsLong(size);
    if (node < 0 || node >= PyList_GET_SIZE(turns->free) || gpus < 0 || gpus > MOST_GPUS)
        return 0;
    double ends_s = number_of(home, TURN_ENDS);
    if (number_of(home, IDLE_SINCE) != (double)INFINITY)
        return 0;
    if (!(ends_s <= turns->now || ends_s == (double)INFINITY) && PySet_Contains(turns->left, key) != 1)
        return 0;
    if (PySet_GET_SIZE(turns->moved) && PySet_Contains(turns->moved, key) != 0)
        return 0;
    if (!is_plain(turns, circle, (double)gpus - number_of(home, DEMAND)))
        return 0;
    Turn turn = {circle, turns->sizes, PyList_GET_SIZE(circle), 0, NULL, 0, NULL};
    PyObject *some[64], **all = some;
    if (2 * turn.count > 64 && !(all = malloc(2 * (size_t)turn.count * sizeof *all))) {
        PyErr_NoMemory();
        return -1;
    }
    turn.rows = all;
    turn.others = all + turn.count;
    int taken = walk(&turn, gpus) && seat(turns, &turn, node) >= 0 && note_turn(turns, key, home, &turn, never);
    if (all != some)
        free(all);
    return taken ? 1 : -1;
}

/* take_turns(keys, at, homes, left, moved, end_of, ends, end_s, now, sizes, whole, use, held, free, first,
 * devices_of, grant_of, model, grants, leaving): new turns begin in the homes `keys` from `at` on, up to one that is
 * not of the common case; the place of that.
 *
 * Common is a home of one server without pairs, of which nobody has moved or grows, where counting GPUs decides and
 * no two jobs leave some of a GPU; its last turn is over.  Turns end at `end_s`.  `whole` tells the rows that ask
 * for whole GPUs, None if all do; `use` what each leaves busy of them, None if nobody is put beside others. */
static PyObject *take_turns(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (!takes(nargs, 20))
        return NULL;
    const int lists[] = {0, 9, 13, 14, 15, 18, 19};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (!PyList_Check(args[lists[i]])) {
            PyErr_Format(PyExc_TypeError, "argument %d is no list", lists[i]);
            return NULL;
        }
    PyObject *keys = args[0], *whole = args[10], *use = args[11];
    if (whole != Py_None && !PyList_Check(whole)) {
        PyErr_SetString(PyExc_TypeError, "a list of who asks for whole GPUs, or None, is expected");
        return NULL;
    }
    Turns turns = {args[2], args[3], args[4], args[5], args[6], args[7], PyFloat_AsDouble(args[8]), args[9], whole,
                   args[12], args[13], args[14], args[15], args[16], args[17], args[18], args[19], NULL, 0,
                   use != Py_None};
    Py_ssize_t at = PyLong_AsSsize_t(args[1]);
    if (PyErr_Occurred())
        return NULL;
    Py_buffer column = {0};
    if (use != Py_None) {
        if (PyObject_GetBuffer(use, &column, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0)
            return NULL;
        if (column.format && !strcmp(column.format, "d")) {
            turns.use = column.buf;
            turns.used = column.len / (Py_ssize_t)sizeof(double);
        }
    }
    PyObject *never = PyFloat_FromDouble((double)INFINITY);
    int taken = never ? 1 : -1;
    for (; taken > 0 && at < PyList_GET_SIZE(keys); at += taken > 0)
        taken = take_one(&turns, PyList_GET_ITEM(keys, at), never);
    Py_XDECREF(never);
    if (use != Py_None)
        PyBuffer_Release(&column);
    if (taken < 0 || PyErr_Occurred())
        return NULL;
    return PyLong_FromSsize_t(at);
}

static PyMethodDef methods[] = {
    FUNCTION(take_turns),
    {NULL, NULL, 0, NULL},
};

/* The functions above by name. */
PyObject *functions(void)
{
    struct {
        PyObject **key;
        const char *name;
    } keys[] = {{&NODES, "nodes"}, {&GPUS, "gpus"}, {&DEMAND, "demand"}, {&CIRCLE, "circle"}, {&PAIRS, "pairs"},
                {&TURN_ENDS, "turn_ends_s"}, {&IDLE_SINCE, "idle_since_s"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!*keys[i].key && !(*keys[i].key = PyUnicode_InternFromString(keys[i].name)))
            return NULL;
    return by_name(methods);
}
