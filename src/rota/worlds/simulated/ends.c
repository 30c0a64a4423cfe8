/* When jobs that begin together will end, and the intervals of those that stop: `ends.py` in C.
 *
 * Each number comes of the same operations in the same order as in `world.py`, so that both end at the same bits.
 */

#include "../../native.h"

#include <math.h>
#include <stdint.h>

static int are_lists(PyObject *const *objects, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++)
        if (!is_list(objects[i]))
            return 0;
    return 1;
}

/* Raise the version of a row; the new one, or NULL with an error. */
static PyObject *next_of(PyObject *version, Py_ssize_t row)
{
    PyObject *next = PyLong_FromLong(PyLong_AsLong(PyList_GET_ITEM(version, row)) + 1);
    if (next && PyErr_Occurred())
        Py_CLEAR(next);
    if (next) {
        PyObject *before = PyList_GET_ITEM(version, row);
        PyList_SET_ITEM(version, row, next);
        Py_DECREF(before);
    }
    return next;
}

/* True if an entry (moment, row, version) comes before another; -1 with an error. */
static int is_before(PyObject *one, PyObject *other)
{
    PyObject *first = PyTuple_GET_ITEM(one, 0), *second = PyTuple_GET_ITEM(other, 0);
    if (PyFloat_CheckExact(first) && PyFloat_CheckExact(second)
        && PyFloat_AS_DOUBLE(first) != PyFloat_AS_DOUBLE(second))
        return PyFloat_AS_DOUBLE(first) < PyFloat_AS_DOUBLE(second);
    return PyObject_RichCompareBool(one, other, Py_LT);
}

/* Put `entry` on the heap, as `heapq.heappush` does. */
static int push(PyObject *heap, PyObject *entry)
{
    if (PyList_Append(heap, entry) < 0)
        return 0;
    Py_ssize_t at = PyList_GET_SIZE(heap) - 1;
    while (at > 0) {
        Py_ssize_t above = (at - 1) >> 1;
        PyObject *parent = PyList_GET_ITEM(heap, above), *own = PyList_GET_ITEM(heap, at);
        int before = is_before(own, parent);
        if (before <= 0)
            return before == 0;
        PyList_SET_ITEM(heap, above, own);
        PyList_SET_ITEM(heap, at, parent);
        at = above;
    }
    return 1;
}

/* enter(version, heap, total, gone, come, rates, progress, now, lag): `gone` end no more; when `come`, which work at
 * `rates` from `now` on, have done all that is left, and `lag` seconds have passed, is entered. */
static PyObject *enter(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (!takes(nargs, 9) || !are_lists(args, 6))
        return NULL;
    PyObject *version = args[0], *heap = args[1], *total = args[2], *gone = args[3], *come = args[4];
    PyObject *rates = args[5];
    double *const *progress = PyLong_AsVoidPtr(args[6]); /* the work done is its first column */
    double now = PyFloat_AsDouble(args[7]), lag = PyFloat_AsDouble(args[8]);
    if (PyErr_Occurred())
        return NULL;
    const double *base = *progress;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(gone); i++) {
        Py_ssize_t row = number(PyList_GET_ITEM(gone, i), version);
        if (row < 0 || !next_of(version, row))
            return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(come); i++) {
        PyObject *key = PyList_GET_ITEM(come, i);
        Py_ssize_t row = number(key, version);
        PyObject *next = row < 0 ? NULL : next_of(version, row);
        if (!next)
            return NULL;
        double rate = PyFloat_AsDouble(PyList_GET_ITEM(rates, i));
        if (!(rate > 0.0))
            continue;
        double moment = now + (PyFloat_AsDouble(PyList_GET_ITEM(total, row)) - base[row]) / rate + lag;
        if (!(moment < (double)INFINITY))
            continue;
        PyObject *told = PyFloat_FromDouble(moment > now ? moment : now);
        PyObject *entry = told ? PyTuple_New(3) : NULL;
        if (!entry) {
            Py_XDECREF(told);
            return NULL;
        }
        PyTuple_SET_ITEM(entry, 0, told);
        PyTuple_SET_ITEM(entry, 1, Py_NewRef(key));
        PyTuple_SET_ITEM(entry, 2, Py_NewRef(next));
        int pushed = push(heap, entry);
        Py_DECREF(entry);
        if (!pushed)
            return NULL;
    }
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

/* valid(heap, version): the entries that no later change has made void. */
static PyObject *valid(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (!takes(nargs, 2) || !are_lists(args, 2))
        return NULL;
    PyObject *heap = args[0], *version = args[1], *kept = PyList_New(0);
    for (Py_ssize_t i = 0; kept && i < PyList_GET_SIZE(heap); i++) {
        PyObject *entry = PyList_GET_ITEM(heap, i);
        Py_ssize_t row = number(PyTuple_GET_ITEM(entry, 1), version);
        PyObject *own = PyTuple_GET_ITEM(entry, 2), *now = row < 0 ? NULL : PyList_GET_ITEM(version, row);
        if (!now || ((own == now || PyLong_AsLong(own) == PyLong_AsLong(now)) && PyList_Append(kept, entry) < 0))
            Py_CLEAR(kept);
    }
    return kept;
}

/* note(intervals, grants, starts, now, how, lost): an interval for each grant, held since its start and left now. */
static PyObject *note(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (!takes(nargs, 6) || !are_lists(args, 3))
        return NULL;
    PyObject *intervals = args[0], *grants = args[1], *starts = args[2];
    if (PyList_GET_SIZE(grants) != PyList_GET_SIZE(starts)) {
        PyErr_SetString(PyExc_ValueError, "a start for each grant is expected");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(grants); i++) {
        PyObject *interval = PyTuple_New(5);
        if (!interval)
            return NULL;
        PyTuple_SET_ITEM(interval, 0, Py_NewRef(PyList_GET_ITEM(grants, i)));
        PyTuple_SET_ITEM(interval, 1, Py_NewRef(PyList_GET_ITEM(starts, i)));
        for (Py_ssize_t field = 2; field < 5; field++)
            PyTuple_SET_ITEM(interval, field, Py_NewRef(args[field + 1]));
        int failed = PyList_Append(intervals, interval) < 0;
        Py_DECREF(interval);
        if (failed)
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    FUNCTION(enter),
    FUNCTION(valid),
    FUNCTION(note),
    {NULL, NULL, 0, NULL},
};

/* The functions above by name. */
PyObject *functions(void)
{
    return by_name(methods);
}
