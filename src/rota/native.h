/* What C files share whose functions take Python's own objects: how each is found, its arguments. */

#ifndef ROTA_NATIVE_H
#define ROTA_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

const char built_of[] = BUILT_OF;
const char built_for[] = BUILT_FOR;

#define FUNCTION(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}

/* As many arguments as are wanted; 0 with an error otherwise. */
static inline int takes(Py_ssize_t given, Py_ssize_t wanted)
{
    if (given == wanted)
        return 1;
    PyErr_Format(PyExc_TypeError, "takes %zd arguments, not %zd", wanted, given);
    return 0;
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
