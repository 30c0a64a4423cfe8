/* What is noted about jobs of which some stop and others begin at one moment, and whether that is sound:
 * `turnover.py`, `state.py`, `progress.py`, `rows.py` and the guard in C.
 *
 * Each number comes of the same operations in the same order as there, so that both end at the same bits.  What
 * is unusual is left to them: a function that finds such a thing has changed nothing.
 */

#include "../native.h"

#include <stdint.h>
#include <string.h>

/* Columns of `State` and of `Progress`, in the order of `COLUMNS` of their modules. */

typedef struct {
    int8_t *phase;
    double *first_start, *since, *run, *service, *rate, *placed, *adjusted;
    int64_t *starts, *moves, *preemptions, *failures;
} State;

typedef struct {
    double *base, *rate, *since;
} Progress;

/* -- the state -------------------------------------------------------------------------------------------- */

/* stop(columns, grants, gone, gpus_of, phase, now, log): `gone` stop at `now` and wait; what they held, since
 * when, and the GPUs for which they asked. */
static PyObject *stop(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (!takes(nargs, 7) || !is_list(args[2]) || !is_list(args[3]) || !is_list(args[6]))
        return NULL;
    const State *state = PyLong_AsVoidPtr(args[0]);
    PyObject *grants = args[1], *gone = args[2], *gpus_of = args[3], *log = args[6];
    long phase = PyLong_AsLong(args[4]), gpus = 0;
    double now = PyFloat_AsDouble(args[5]);
    if (PyErr_Occurred())
        return NULL;
    Py_ssize_t count = PyList_GET_SIZE(gone);
    PyObject *left = PyList_New(count), *told = PyList_New(count), *all = NULL;
    for (Py_ssize_t i = 0; left && told && i < count; i++) {
        PyObject *key = PyList_GET_ITEM(gone, i), *grant = PyDict_GetItemWithError(grants, key);
        Py_ssize_t row = grant ? number(key, gpus_of) : -1;
        if (row < 0) {
            if (!PyErr_Occurred())
                PyErr_SetObject(PyExc_KeyError, key);
            goto done;
        }
        PyList_SET_ITEM(left, i, Py_NewRef(grant));
        double since = state->since[row], adjusted = state->adjusted[row], elapsed = now - since;
        PyObject *moment = PyFloat_FromDouble(since >= adjusted ? since : adjusted);
        if (!moment || PyDict_DelItem(grants, key) < 0 || PyList_Append(log, key) < 0) {
            Py_XDECREF(moment);
            goto done;
        }
        PyList_SET_ITEM(told, i, moment);
        state->run[row] += elapsed;
        state->service[row] += state->rate[row] * elapsed;
        state->rate[row] = 0.0;
        state->preemptions[row]++;
        state->phase[row] = (int8_t)phase;
        gpus += PyLong_AsLong(PyList_GET_ITEM(gpus_of, row));
    }
    if (left && told && !PyErr_Occurred())
        all = Py_BuildValue("OOl", left, told, gpus);
done:
    Py_XDECREF(left);
    Py_XDECREF(told);
    return all;
}

/* split(grants, come): the jobs of `come` that begin, and those that move. */
static PyObject *split(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (!takes(nargs, 2) || !is_list(args[1]))
        return NULL;
    PyObject *grants = args[0], *come = args[1], *begun = PyList_New(0), *moved = PyList_New(0), *both = NULL;
    for (Py_ssize_t i = 0; begun && moved && i < PyList_GET_SIZE(come); i++) {
        PyObject *key = ROW_OF(PyList_GET_ITEM(come, i));
        int runs = PyDict_Contains(grants, key);
        if (runs < 0 || PyList_Append(runs ? moved : begun, key) < 0)
            goto done;
    }
    if (begun && moved)
        both = PyTuple_Pack(2, begun, moved);
done:
    Py_XDECREF(begun);
    Py_XDECREF(moved);
    return both;
}

/* begin(columns, grants, come, begun, gpus_of, phase, now, log): jobs hold `come` from `now` on, of whom `begun`
 * waited and get as many whole devices as they asked for; how many those are. */
static PyObject *begin(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (!takes(nargs, 8) || !is_list(args[2]) || !is_list(args[3]) || !is_list(args[4]) || !is_list(args[7]))
        return NULL;
    const State *state = PyLong_AsVoidPtr(args[0]);
    PyObject *grants = args[1], *come = args[2], *begun = args[3], *gpus_of = args[4], *log = args[7];
    long phase = PyLong_AsLong(args[5]), all = 0;
    double now = PyFloat_AsDouble(args[6]);
    if (PyErr_Occurred())
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(come); i++) {
        PyObject *grant = PyList_GET_ITEM(come, i);
        if (PyDict_SetItem(grants, ROW_OF(grant), grant) < 0)
            return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(begun); i++) {
        PyObject *key = PyList_GET_ITEM(begun, i);
        Py_ssize_t row = number(key, gpus_of);
        if (row < 0 || PyList_Append(log, key) < 0)
            return NULL;
        if (++state->starts[row] == 1)
            state->first_start[row] = now;
        else
            state->moves[row]++;
        long gpus = PyLong_AsLong(PyList_GET_ITEM(gpus_of, row));
        state->phase[row] = (int8_t)phase;
        state->placed[row] = state->since[row] = now;
        state->rate[row] = (double)gpus;
        all += gpus;
    }
    return PyErr_Occurred() ? NULL : PyLong_FromLong(all);
}

/* -- sets of rows ----------------------------------------------------------------------------------------- */

/* exchange(at, cells, gone, come): of a `RowSet`, as many of `come` take the places of as many of `gone`, and
 * how many those are. */
static PyObject *exchange(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (!takes(nargs, 4) || !is_list(args[2]) || !is_list(args[3]))
        return NULL;
    PyObject *at = args[0], *gone = args[2], *come = args[3];
    int64_t *cells = PyLong_AsVoidPtr(args[1]);
    if (PyErr_Occurred())
        return NULL;
    Py_ssize_t count = Py_MIN(PyList_GET_SIZE(gone), PyList_GET_SIZE(come));
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *before = PyList_GET_ITEM(gone, i), *row = PyList_GET_ITEM(come, i);
        PyObject *place = PyDict_GetItemWithError(at, before);
        if (!place) {
            if (!PyErr_Occurred())
                PyErr_SetObject(PyExc_KeyError, before);
            return NULL;
        }
        Py_INCREF(place);
        Py_ssize_t number = PyNumber_AsSsize_t(row, PyExc_IndexError);
        int failed = PyErr_Occurred() || PyDict_DelItem(at, before) < 0 || PyDict_SetItem(at, row, place) < 0;
        if (!failed)
            cells[PyLong_AsSsize_t(place)] = number;
        Py_DECREF(place);
        if (failed)
            return NULL;
    }
    return PyLong_FromSsize_t(count);
}

/* -- devices that change hands ---------------------------------------------------------------------------- */

/* Notes of devices and of rows, one cell each and all empty between two calls: who calls holds the GIL. */

static PyObject **held_from; /* per device, the devices of the grant that begins with it */
static char *marks;
static Py_ssize_t room;

static int make_room(Py_ssize_t wanted)
{
    if (wanted <= room)
        return 1;
    Py_ssize_t more = wanted + wanted / 2;
    PyObject **longer = realloc(held_from, (size_t)more * sizeof *held_from);
    if (longer)
        held_from = longer;
    char *others = realloc(marks, (size_t)more);
    if (others)
        marks = others;
    if (!longer || !others) {
        PyErr_NoMemory();
        return 0;
    }
    memset(held_from + room, 0, (size_t)(more - room) * sizeof *held_from);
    memset(marks + room, 0, (size_t)(more - room));
    room = more;
    return 1;
}

/* The first of `devices`; -1 if there is none, or it is not below `most`. */
static Py_ssize_t first_of(PyObject *devices, Py_ssize_t most)
{
    if (!PyTuple_CheckExact(devices) || !PyTuple_GET_SIZE(devices))
        return -1;
    PyObject *first = PyTuple_GET_ITEM(devices, 0);
    Py_ssize_t device = PyLong_CheckExact(first) ? PyLong_AsSsize_t(first) : -1;
    if (device < 0)
        PyErr_Clear(); /* of a number too large */
    return device < most ? device : -1;
}

/* change_hands(gone, come, devices): None if each grant of `come` is on the very devices of one of `gone`, none of
 * which is left over; else the devices of those that are, and the others of `come`. */
static PyObject *change_hands(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (!takes(nargs, 3) || !is_list(args[0]) || !is_list(args[1]))
        return NULL;
    PyObject *gone = args[0], *come = args[1], *left = NULL, *others = NULL;
    Py_ssize_t most = PyLong_AsSsize_t(args[2]), handed = 0, freed = 0;
    if (PyErr_Occurred() || !make_room(most))
        return NULL;
    int failed = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(gone); i++) {
        PyObject *devices = DEVICES_OF(PyList_GET_ITEM(gone, i));
        Py_ssize_t first = first_of(devices, most);
        freed += first >= 0;
        if (first >= 0)
            held_from[first] = devices;
    }
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(come); i++) {
        PyObject *grant = PyList_GET_ITEM(come, i), *devices = DEVICES_OF(grant);
        Py_ssize_t first = first_of(devices, most);
        if (first >= 0 && held_from[first] == devices) {
            held_from[first] = NULL;
            handed++;
        } else {
            failed = (!others && !(others = PyList_New(0))) || PyList_Append(others, grant) < 0;
        }
    }
    failed = failed || ((others || handed < freed) && !(left = PyList_New(0)));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(gone); i++) {
        PyObject *devices = DEVICES_OF(PyList_GET_ITEM(gone, i));
        Py_ssize_t first = first_of(devices, most);
        if (first < 0 || !held_from[first])
            continue;
        failed = failed || PyList_Append(left, devices) < 0;
        held_from[first] = NULL;
    }
    PyObject *both = NULL;
    if (!failed && !left)
        both = Py_NewRef(Py_None);
    else if (!failed && (others || (others = PyList_New(0))))
        both = PyTuple_Pack(2, left, others);
    Py_XDECREF(left);
    Py_XDECREF(others);
    return both;
}

typedef struct {
    PyObject *held, *waiting, *gpus_of, *takes_any, *bare, *claimed, *whole;
    Py_ssize_t rows, devices;
} Table;

/* True if the running job of `key` has whole devices to itself, which it frees. */
static int frees(const Table *table, PyObject *key)
{
    PyObject *grant = PyLong_CheckExact(key) ? PyDict_GetItemWithError(table->held, key) : NULL;
    if (!grant || !is_made_whole(grant, table->whole))
        return 0;
    Py_ssize_t first = first_of(DEVICES_OF(grant), table->devices);
    if (first < 0 || held_from[first])
        return 0;
    held_from[first] = DEVICES_OF(grant);
    return 1;
}

/* True if `grant` is to a waiting job that is not marked, as it asks to run; marks it. */
static int is_as_asked(const Table *table, PyObject *grant)
{
    if (!is_made_whole(grant, table->whole) || !PyTuple_CheckExact(DEVICES_OF(grant)))
        return 0;
    Py_ssize_t row = PyLong_AsSsize_t(ROW_OF(grant));
    if (row < 0 || row >= table->rows || marks[row])
        return 0;
    marks[row] = 1;
    return PyTuple_GET_SIZE(DEVICES_OF(grant)) == PyLong_AsSsize_t(PyList_GET_ITEM(table->gpus_of, row))
           && PyList_GET_ITEM(table->takes_any, row) == Py_True && PyList_GET_ITEM(table->bare, row) == Py_True
           && PyDict_Contains(table->waiting, ROW_OF(grant)) == 1
           && PyDict_Contains(table->held, ROW_OF(grant)) == 0;
}

/* True if `devices` are free, or marked as freed (2), and nobody took them before; marks them as taken (1). */
static int take(const Table *table, PyObject *devices)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(devices); i++) {
        Py_ssize_t device = PyLong_AsSsize_t(PyTuple_GET_ITEM(devices, i));
        if (device < 0 || device >= table->devices || marks[device] == 1)
            return 0;
        PyObject *claim = PyList_GET_ITEM(table->claimed, device);
        if (!marks[device] && !(PyFloat_Check(claim) && PyFloat_AS_DOUBLE(claim) == 0.0))
            return 0;
        marks[device] = 1;
    }
    return 1;
}

static void mark(PyObject *devices, char as, Py_ssize_t most)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(devices); i++) {
        Py_ssize_t device = PyLong_AsSsize_t(PyTuple_GET_ITEM(devices, i));
        if (device >= 0 && device < most)
            marks[device] = as;
    }
}

/* Empty the marks of the rows of `grants` up to `count`. */
static void unmark_rows(const Table *table, PyObject *grants, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *grant = PyList_GET_ITEM(grants, i);
        Py_ssize_t row = Py_TYPE(grant) == Py_TYPE(table->whole) ? PyLong_AsSsize_t(ROW_OF(grant)) : -1;
        if (row >= 0 && row < table->rows)
            marks[row] = 0;
    }
}

/* True if those of `grants` that are marked in `is_other` fit together on what is free, or still `held_from`
 * whoever of `gone` frees it. */
static int fit(const Table *table, PyObject *gone, PyObject *grants, const char *is_other)
{
    Py_ssize_t leaving = PyList_GET_SIZE(gone), count = PyList_GET_SIZE(grants), taken = 0;
    for (Py_ssize_t i = 0; i < leaving; i++) {
        PyObject *devices = DEVICES_OF(PyDict_GetItemWithError(table->held, PyList_GET_ITEM(gone, i)));
        if (held_from[first_of(devices, table->devices)])
            mark(devices, 2, table->devices);
    }
    int sound = 1;
    for (; sound && taken < count; taken++)
        if (is_other[taken])
            sound = take(table, DEVICES_OF(PyList_GET_ITEM(grants, taken)));
    for (Py_ssize_t i = 0; i < taken; i++)
        if (is_other[i])
            mark(DEVICES_OF(PyList_GET_ITEM(grants, i)), 0, table->devices);
    for (Py_ssize_t i = 0; i < leaving; i++)
        mark(DEVICES_OF(PyDict_GetItemWithError(table->held, PyList_GET_ITEM(gone, i))), 0, table->devices);
    return sound;
}

/* is_sound(held, waiting, gpus_of, takes_any, bare, claimed, whole, gone, grants): whether running `gone` may
 * stop and waiting jobs begin on `grants`, if nobody shares a device, all jobs involved have, or get, whole
 * devices to themselves as they asked, and any type of GPU will do for those who begin.  False says nothing. */
static PyObject *is_sound(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (!takes(nargs, 9))
        return NULL;
    Table table = {args[0], args[1], args[2], args[3], args[4], args[5], args[6], 0, 0};
    PyObject *gone = args[7], *grants = args[8];
    if (!PyList_Check(gone) || !PyList_Check(grants))
        Py_RETURN_FALSE;
    table.rows = PyList_GET_SIZE(table.gpus_of);
    table.devices = PyList_GET_SIZE(table.claimed);
    Py_ssize_t leaving = PyList_GET_SIZE(gone), count = PyList_GET_SIZE(grants), freed = 0, seen = 0, others = 0;
    if (!make_room(Py_MAX(table.rows, table.devices)))
        return NULL;
    char *is_other = calloc((size_t)count + 1, 1);
    if (!is_other)
        return PyErr_NoMemory();
    int sound = 1;
    for (; sound && freed < leaving; freed += sound)
        sound = frees(&table, PyList_GET_ITEM(gone, freed));
    for (; sound && seen < count; seen++) {
        PyObject *grant = PyList_GET_ITEM(grants, seen);
        sound = is_as_asked(&table, grant);
        if (!sound)
            continue;
        Py_ssize_t first = first_of(DEVICES_OF(grant), table.devices);
        if (first >= 0 && held_from[first] == DEVICES_OF(grant))
            held_from[first] = NULL;
        else
            others += is_other[seen] = 1;
    }
    unmark_rows(&table, grants, seen);
    if (sound && others)
        sound = fit(&table, gone, grants, is_other);
    for (Py_ssize_t i = 0; i < freed; i++) {
        PyObject *grant = PyDict_GetItemWithError(table.held, PyList_GET_ITEM(gone, i));
        held_from[first_of(DEVICES_OF(grant), table.devices)] = NULL;
    }
    free(is_other);
    PyErr_Clear();
    return PyBool_FromLong(sound);
}

/* -- progress --------------------------------------------------------------------------------------------- */

/* work(columns, gone, come, rates, now): `gone` stand still from `now` on; `come` work at `rates` from then on,
 * whether they stood still before or not. */
static PyObject *work(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (!takes(nargs, 5) || !is_list(args[1]) || !is_list(args[2]) || !is_list(args[3]))
        return NULL;
    const Progress *progress = PyLong_AsVoidPtr(args[0]);
    PyObject *gone = args[1], *come = args[2], *rates = args[3];
    double now = PyFloat_AsDouble(args[4]);
    if (PyErr_Occurred())
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(gone); i++) {
        Py_ssize_t row = PyNumber_AsSsize_t(PyList_GET_ITEM(gone, i), PyExc_IndexError);
        if (row < 0)
            return none_such(row);
        double elapsed = now - progress->since[row];
        if (elapsed > 0.0)
            progress->base[row] += progress->rate[row] * elapsed;
        progress->rate[row] = 0.0;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(come); i++) {
        Py_ssize_t row = PyNumber_AsSsize_t(PyList_GET_ITEM(come, i), PyExc_IndexError);
        if (row < 0)
            return none_such(row);
        double before = progress->rate[row], elapsed = now - progress->since[row];
        if (before != 0.0 && elapsed > 0.0)
            progress->base[row] += before * elapsed;
        progress->rate[row] = PyFloat_AsDouble(PyList_GET_ITEM(rates, i));
        progress->since[row] = now;
    }
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    FUNCTION(stop),
    FUNCTION(split),
    FUNCTION(begin),
    FUNCTION(exchange),
    FUNCTION(change_hands),
    FUNCTION(is_sound),
    FUNCTION(work),
    {NULL, NULL, 0, NULL},
};

/* The functions above by name. */
PyObject *functions(void)
{
    return by_name(methods);
}
