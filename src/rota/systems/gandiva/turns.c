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

/* Whose turn it is. */
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
    return 1;
}

/* They go to the tail of the circle, unless everybody runs. */
static void rotate(const Turn *turn)
{
    if (!turn->left)
        return;
    for (Py_ssize_t i = 0; i < turn->left; i++)
        PyList_SET_ITEM(turn->circle, i, turn->others[i]);
    for (Py_ssize_t i = 0; i < turn->taken; i++)
        PyList_SET_ITEM(turn->circle, turn->left + i, turn->rows[i]);
}

/* All that the turns of one moment are taken with: what `take_turns` is given. */
typedef struct {
    PyObject *homes, *left, *moved, *end_of, *ends, *end_s;
    double now;
    PyObject *sizes, *whole, *held, *free, *first, *devices_of, *grant_of, *model, *grants, *leaving, *apart;
    const double *use; /* per row; NULL if nobody is put beside others, or nobody knows */
    Py_ssize_t used;
    int packs;
    PyObject *keys; /* homes whose turns end at `end_s`, once one of these does */
} Turns;

/* The mask of `devices` on a node that begins at `first`; 0 if some are elsewhere. */
static uint64_t mask_of(PyObject *devices, long first)
{
    uint64_t mask = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(devices); i++) {
        long place = PyLong_AsLong(PyTuple_GET_ITEM(devices, i)) - first;
        if (place < 0 || place >= MOST_GPUS)
            return 0;
        mask |= (uint64_t)1 << place;
    }
    return mask;
}

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
        uint64_t own = mask_of(DEVICES_OF(grant), first);
        if (!own) {
            PyErr_Format(PyExc_ValueError, "a job of node %zd holds devices elsewhere", node);
            return -1;
        }
        bits |= own;
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
        PyObject *last = PyDict_GetItemWithError(turns->grant_of, row);
        if (last && mask_of(DEVICES_OF(last), first) == mask) {
            if (PyList_Append(turns->grants, last) < 0)
                return -1;
            continue;
        }
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

/* The homes whose turns end at `end_s`, borrowed: none as yet, if nobody's does. */
static PyObject *keys_at(PyObject *ends, PyObject *end_s)
{
    PyObject *none = PySet_New(NULL), *keys = none ? PyDict_SetDefault(ends, end_s, none) : NULL;
    Py_XDECREF(none);
    return keys;
}

/* Note in the home, and among the ends of turns, when the turn of `turn->taken` jobs ends. */
static int note_turn(Turns *turns, PyObject *key, PyObject *home, const Turn *turn, PyObject *never)
{
    if (turn->taken == turn->count)
        return PyDict_SetItem(home, TURN_ENDS, never) == 0;
    if (!turns->keys && !(turns->keys = keys_at(turns->ends, turns->end_s)))
        return 0;
    return PySet_Add(turns->keys, key) == 0 && PyDict_SetItem(turns->end_of, key, turns->end_s) == 0
           && PyDict_SetItem(home, TURN_ENDS, turns->end_s) == 0;
}

/* -- homes of several servers ------------------------------------------------------------------------------ */

/* A server of such a home, and which of its devices are free, or held by those who belong to the home. */
typedef struct {
    Py_ssize_t node;
    long first, end;
    uint64_t free, held, taken;
} Server;

typedef struct {
    Server *servers;
    Py_ssize_t count;
    PyObject *grants, *leaving, *running;
} Several;

static int count_of(const Server *server)
{
    return __builtin_popcountll(server->free);
}

/* The server with the fewest free devices, but at least `least`; or, with `most`, that with the most, if it has any.
 * Of several the lowest; NULL if there is none. */
static Server *pick(const Several *several, int least, int most)
{
    Server *best = NULL;
    for (Py_ssize_t i = 0; i < several->count; i++) {
        Server *one = &several->servers[i];
        int free = count_of(one);
        if (most ? free && (!best || free > count_of(best)) : free >= least && (!best || free < count_of(best)))
            best = one;
    }
    return best;
}

/* As `place.consolidate`: `size` devices on one server if one has them, else on the fewest; 0 if there are too few.
 * They are `taken` of each server. */
static int consolidate(const Several *several, long size)
{
    for (Py_ssize_t i = 0; i < several->count; i++)
        several->servers[i].taken = 0;
    while (size > 0) {
        Server *one = pick(several, (int)size, 0);
        if (!one)
            one = pick(several, 0, 1);
        if (!one)
            return 0;
        long count = Py_MIN(size, (long)count_of(one));
        uint64_t mask = lowest(one->free, count);
        one->free ^= mask;
        one->taken |= mask;
        size -= count;
    }
    return 1;
}

/* True if `devices` are those taken. */
static int are_taken(const Several *several, PyObject *devices, Py_ssize_t size)
{
    if (PyTuple_GET_SIZE(devices) != size)
        return 0;
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; i < several->count; i++)
        for (uint64_t bits = several->servers[i].taken; bits; bits &= bits - 1)
            if (PyLong_AsLong(PyTuple_GET_ITEM(devices, at++)) != several->servers[i].first + __builtin_ctzll(bits))
                return 0;
    return 1;
}

/* The devices that are taken of several servers, borrowed of what is `known` of the first of them. */
static PyObject *devices_over(const Several *several, PyObject *devices_of, long size)
{
    PyObject *devices = PyTuple_New(size), *known = NULL;
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; devices && i < several->count; i++) {
        const Server *one = &several->servers[i];
        if (one->taken && !known)
            known = PyList_GET_ITEM(devices_of, one->node);
        for (uint64_t bits = one->taken; devices && bits; bits &= bits - 1) {
            PyObject *device = PyLong_FromLong(one->first + __builtin_ctzll(bits));
            if (device)
                PyTuple_SET_ITEM(devices, at++, device);
            else
                Py_CLEAR(devices);
        }
    }
    PyObject *same = devices && known ? PyDict_SetDefault(known, devices, devices) : NULL;
    Py_XDECREF(devices);
    return same;
}

/* Devices for `row`, of those that are free. */
static int seat_over(const Turns *turns, Several *several, PyObject *row)
{
    long size = item_of(turns->sizes, row);
    if (!consolidate(several, size)) {
        PyErr_Format(PyExc_ValueError, "a home has no %ld GPUs for a job whose turn it is", size);
        return 0;
    }
    PyObject *last = PyDict_GetItemWithError(turns->grant_of, row), *devices = NULL;
    if (last && are_taken(several, DEVICES_OF(last), size))
        return PyList_Append(several->grants, last) == 0;
    for (Py_ssize_t i = 0; !devices && i < several->count; i++) {
        const Server *one = &several->servers[i];
        if (__builtin_popcountll(one->taken) == size) {
            devices = devices_in(PyList_GET_ITEM(turns->devices_of, one->node), one->taken, one->first);
            if (!devices)
                return 0;
        }
    }
    if (!devices)
        devices = devices_over(several, turns->devices_of, size);
    return devices && give(several->grants, turns->grant_of, turns->model, row, devices);
}

/* True if `grant` is to `size` whole devices of these servers, by the very objects with which `model` says so; notes
 * that they are held. */
static int holds_own(const Several *several, PyObject *grant, PyObject *model, long size)
{
    PyObject *devices = DEVICES_OF(grant);
    if (!is_made_whole(grant, model) || !PyTuple_CheckExact(devices) || PyTuple_GET_SIZE(devices) != size)
        return 0;
    Server *one = several->servers, *end = one + several->count;
    for (Py_ssize_t i = 0; i < size; i++) {
        long device = PyLong_AsLong(PyTuple_GET_ITEM(devices, i));
        while (one < end && device >= one->end)
            one++; /* devices of a grant are in order, and so are servers */
        if (one == end || device < one->first)
            return 0;
        one->held |= (uint64_t)1 << (device - one->first);
    }
    return 1;
}

/* Fill in the servers of a home; 1 if all its GPUs are free, or held by those who belong to it, 0 if not. */
static int survey(const Turns *turns, const Several *several, PyObject *nodes, PyObject *circle, long gpus)
{
    long whole = 0;
    for (Py_ssize_t i = 0; i < several->count; i++) {
        Server *one = &several->servers[i];
        one->node = PyLong_AsSsize_t(PyList_GET_ITEM(nodes, i));
        if (one->node < 0 || one->node >= PyList_GET_SIZE(turns->free))
            return 0;
        one->first = PyLong_AsLong(PyList_GET_ITEM(turns->first, one->node));
        one->end = PyLong_AsLong(PyList_GET_ITEM(turns->first, one->node + 1));
        if (one->end - one->first > MOST_GPUS || (i && one->first < one[-1].end))
            return 0;
        one->free = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(turns->free, one->node));
        one->held = 0;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(circle); i++) {
        PyObject *row = PyList_GET_ITEM(circle, i), *grant = PyDict_GetItemWithError(turns->held, row);
        if (grant && !holds_own(several, grant, turns->model, item_of(turns->sizes, row)))
            return 0;
    }
    for (Py_ssize_t i = 0; i < several->count; i++) {
        const Server *one = &several->servers[i];
        if (one->free & one->held)
            return 0;
        whole += __builtin_popcountll(one->free | one->held);
    }
    return whole == gpus;
}

/* The turn of a home of several servers: who runs stays where he is, whoever comes gets what is free or left.  What
 * they get, who leaves and who has run until now stands in `apart` under the key. */
static int take_apart(const Turns *turns, const Turn *turn, Several *several, PyObject *key)
{
    int failed = 0;
    for (Py_ssize_t i = 0; !failed && i < turn->count; i++) {
        PyObject *row = PyList_GET_ITEM(turn->circle, i);
        if (PyDict_GetItemWithError(turns->held, row))
            failed = PyList_Append(several->running, row) < 0;
    }
    for (Py_ssize_t i = 0; i < several->count; i++)
        several->servers[i].free |= several->servers[i].held;
    for (Py_ssize_t i = 0; !failed && i < turn->taken; i++) {
        PyObject *grant = PyDict_GetItemWithError(turns->held, turn->rows[i]);
        Server *one = several->servers;
        for (Py_ssize_t at = 0; grant && at < PyTuple_GET_SIZE(DEVICES_OF(grant)); at++) {
            long device = PyLong_AsLong(PyTuple_GET_ITEM(DEVICES_OF(grant), at));
            while (device >= one->end)
                one++;
            one->free &= ~((uint64_t)1 << (device - one->first));
        }
    }
    for (Py_ssize_t i = 0; !failed && i < turn->left; i++)
        if (PyDict_GetItemWithError(turns->held, turn->others[i]))
            failed = PyList_Append(several->leaving, turn->others[i]) < 0;
    for (Py_ssize_t i = 0; !failed && i < turn->taken; i++)
        if (!PyDict_GetItemWithError(turns->held, turn->rows[i]))
            failed = !seat_over(turns, several, turn->rows[i]);
    PyObject *all = failed ? NULL : PyTuple_Pack(3, several->grants, several->leaving, several->running);
    failed = !all || PyDict_SetItem(turns->apart, key, all) < 0;
    Py_XDECREF(all);
    return !failed;
}

/* As `take_one`, of several servers. */
static int take_several(Turns *turns, Turn *turn, PyObject *key, PyObject *home, PyObject *nodes, long gpus,
                        PyObject *never)
{
    Several several = {malloc((size_t)PyList_GET_SIZE(nodes) * sizeof(Server)), PyList_GET_SIZE(nodes),
                       PyList_New(0), PyList_New(0), PyList_New(0)};
    int taken = -1;
    if (!several.servers)
        PyErr_NoMemory();
    else if (several.grants && several.leaving && several.running) {
        taken = survey(turns, &several, nodes, turn->circle, gpus);
        if (PyErr_Occurred())
            taken = -1;
        if (taken > 0) {
            taken = walk(turn, gpus) && take_apart(turns, turn, &several, key) ? 1 : -1;
            if (taken > 0)
                rotate(turn);
            taken = taken > 0 && note_turn(turns, key, home, turn, never) ? 1 : -1;
        }
    }
    free(several.servers);
    Py_XDECREF(several.grants);
    Py_XDECREF(several.leaving);
    Py_XDECREF(several.running);
    return taken;
}

/* -- one home ---------------------------------------------------------------------------------------------- */

/* As `take_one`, of one server. */
static int take_single(Turns *turns, Turn *turn, PyObject *key, PyObject *home, PyObject *nodes, long gpus,
                       PyObject *never)
{
    Py_ssize_t node = PyLong_AsSsize_t(PyList_GET_ITEM(nodes, 0));
    if (node < 0 || node >= PyList_GET_SIZE(turns->free) || gpus > MOST_GPUS)
        return 0;
    if (!walk(turn, gpus))
        return -1;
    rotate(turn);
    return seat(turns, turn, node) >= 0 && note_turn(turns, key, home, turn, never) ? 1 : -1;
}

/* The turn of the home `key`, if it is one of the common case: 1 if it is taken, 0 if not, -1 with an error. */
static int take_one(Turns *turns, PyObject *key, PyObject *never)
{
    PyObject *home = PyDict_GetItemWithError(turns->homes, key);
    if (!home || !PyDict_Check(home) || PyDict_Contains(turns->end_of, key) != 0)
        return 0;
    PyObject *nodes = PyDict_GetItemWithError(home, NODES), *circle = PyDict_GetItemWithError(home, CIRCLE);
    PyObject *pairs = PyDict_GetItemWithError(home, PAIRS), *size = PyDict_GetItemWithError(home, GPUS);
    if (!nodes || !circle || !pairs || !size || !PyList_Check(nodes) || !PyList_GET_SIZE(nodes))
        return 0;
    if (!PyList_Check(circle) || !PyDict_Check(pairs) || PyDict_GET_SIZE(pairs))
        return 0;
    Py_ssize_t servers = PyList_GET_SIZE(nodes);
    long gpus = PyLong_AsLong(size);
    if (gpus < 0 || (servers > 1 && turns->apart == Py_None))
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
    int taken = servers > 1 ? take_several(turns, &turn, key, home, nodes, gpus, never)
                            : take_single(turns, &turn, key, home, nodes, gpus, never);
    if (all != some)
        free(all);
    return taken;
}

/* take_turns(keys, at, homes, left, moved, end_of, ends, end_s, now, sizes, whole, use, held, free, first,
 * devices_of, grant_of, model, grants, leaving, apart): new turns begin in the homes `keys` from `at` on, up to one
 * that is not of the common case; the place of that.
 *
 * Common is a home without pairs, of which nobody has moved or grows, where counting GPUs decides and no two jobs
 * leave some of a GPU; its last turn is over.  Who comes to one of several servers, leaves, and has run there until
 * now, stands in `apart`; None if only homes of one server are to be taken.  Turns end at `end_s`.  `whole` tells the rows that ask
 * for whole GPUs, None if all do; `use` what each leaves busy of them, None if nobody is put beside others. */
static PyObject *take_turns(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (!takes(nargs, 21))
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
                   args[12], args[13], args[14], args[15], args[16], args[17], args[18], args[19], args[20], NULL, 0,
                   use != Py_None, NULL};
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
