/* What C files share whose functions take Python's own objects: how each is found, its arguments, rows. */

#ifndef ROTA_NATIVE_H
#define ROTA_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

const char built_of[] = BUILT_OF;
const char built_for[] = BUILT_FOR;

#define ROW_OF(grant) PyTuple_GET_ITEM(grant, 0)
#define DEVICES_OF(grant) PyTuple_GET_ITEM(grant, 1)
#define FUNCTION(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}

/* As many arguments as are wanted; 0 with an error otherwise. */
static inline int takes(Py_ssize_t given, Py_ssize_t wanted)
{
    if (given == wanted)
        return 1;
    PyErr_Format(PyExc_TypeError, "takes %zd arguments, not %zd", wanted, given);
    return 0;
}

static inline int is_list(PyObject *object)
{
    if (PyList_Check(object))
        return 1;
    PyErr_Format(PyExc_TypeError, "expected a list, not %.80s", Py_TYPE(object)->tp_name);
    return 0;
}

static inline PyObject *none_such(Py_ssize_t row)
{
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_IndexError, "there is no row %zd", row);
    return NULL;
}

/* A row as a number, a place of `cells`; -1 with an error if it is none. */
static inline Py_ssize_t number(PyObject *row, PyObject *cells)
{
    Py_ssize_t at = PyLong_CheckExact(row) ? PyLong_AsSsize_t(row) : PyNumber_AsSsize_t(row, PyExc_IndexError);
    if (at >= 0 && at < PyList_GET_SIZE(cells))
        return at;
    none_such(at);
    return -1;
}

/* True if a grant says nothing beyond job and devices, by the very objects with which `whole` says it. */
static inline int is_made_whole(PyObject *grant, PyObject *whole)
{
    if (Py_TYPE(grant) != Py_TYPE(whole))
        return 0;
    for (Py_ssize_t field = 2; field < PyTuple_GET_SIZE(whole); field++)
        if (PyTuple_GET_ITEM(grant, field) != PyTuple_GET_ITEM(whole, field))
            return 0;
    return 1;
}

/* The functions of a list that ends in NULL, by name. */
static inline PyObject *by_name(PyMethodDef *methods)
{
    PyObject *all = PyDict_New();
    for (PyMethodDef *method = methods; all && method->ml_name; method++) {
        PyObject *function = PyCFunction_New(method, NULL);
        if (!function || PyDict_SetItemString(all, method->ml_name, function) < 0)
            Py_CLEAR(all);
        Py_XDECREF(function);
    }
    return all;
}

#endif
