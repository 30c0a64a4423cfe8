/* When jobs that begin together will end, and the intervals of those that stop: `ends.py` in C.
 *
 * Each number comes of the same operations in the same order as in `world.py`, so that both end at the same bits.
 */

#include "../../native.h"

#include <math.h>
#include <string.h>

static int are_lists(PyObject *const *objects, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++)
        if (!is_list(objects[i]))
            return 0;
    return 1;
}

/* True if an entry (moment, row) comes before another; -1 with an error. */
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

/* Where the numbers of a column begin that can be written, and how many they are; NULL with an error. */
static double *numbers_of(PyObject *column, Py_buffer *view)
{
    if (PyObject_GetBuffer(column, view, PyBUF_CONTIG | PyBUF_FORMAT) < 0)
        return NULL;
    if (view->format && !strcmp(view->format, "d"))
        return view->buf;
    PyBuffer_Release(view);
    PyErr_SetString(PyExc_TypeError, "expected a column of floats");
    return NULL;
}

/* Note in `ends` when each of `come` has done all that is left of it, and enter those up to `horizon`. */
static int enter_all(double *ends, PyObject *heap, double horizon, PyObject *total, PyObject *come, PyObject *rates,
                     const double *base, double now, double lag)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(come); i++) {
        PyObject *key = PyList_GET_ITEM(come, i);
        Py_ssize_t row = number(key, total);
        if (row < 0)
            return 0;
        double rate = PyFloat_AsDouble(PyList_GET_ITEM(rates, i)), moment = (double)INFINITY;
        if (rate > 0.0)
            moment = now + (PyFloat_AsDouble(PyList_GET_ITEM(total, row)) - base[row]) / rate + lag;
        ends[row] = moment < now ? now : moment;
        if (!(moment < (double)INFINITY && moment <= horizon))
            continue;
        PyObject *entry = Py_BuildValue("dO", ends[row], key);
        int pushed = entry && push(heap, entry);
        Py_XDECREF(entry);
        if (!pushed)
            return 0;
    }
    return !PyErr_Occurred();
}

/* enter(ends, heap, horizon, total, gone, come, rates, progress, now, lag): `gone` end no more; `come`, which work at
 * `rates` from `now` on, end when they have done all that is left, and `lag` seconds have passed. */
static PyObject *enter(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (!takes(nargs, 10) || !is_list(args[1]) || !are_lists(args + 3, 4))
        return NULL;
    PyObject *total = args[3], *gone = args[4];
    double horizon = PyFloat_AsDouble(args[2]), now = PyFloat_AsDouble(args[8]), lag = PyFloat_AsDouble(args[9]);
    double *const *progress = PyLong_AsVoidPtr(args[7]); /* the work done is its first column */
    Py_buffer column;
    double *ends = PyErr_Occurred() ? NULL : numbers_of(args[0], &column);
    if (!ends)
        return NULL;
    int done = column.len == PyList_GET_SIZE(total) * (Py_ssize_t)sizeof *ends;
    if (!done)
        PyErr_SetString(PyExc_ValueError, "an end for each row is expected");
    for (Py_ssize_t i = 0; done && i < PyList_GET_SIZE(gone); i++) {
        Py_ssize_t row = number(PyList_GET_ITEM(gone, i), total);
        done = row >= 0;
        if (done)
            ends[row] = (double)INFINITY;
    }
    done = done && enter_all(ends, args[1], horizon, total, args[5], args[6], *progress, now, lag);
    PyBuffer_Release(&column);
    if (!done)
        return NULL;
    Py_RETURN_NONE;
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
    FUNCTION(note),
    {NULL, NULL, 0, NULL},
};

/* The functions above by name. */
PyObject *functions(void)
{
    return by_name(methods);
}
