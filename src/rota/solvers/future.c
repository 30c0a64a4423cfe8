/* Least shares on curves of free GPUs: what `future.py` does with NumPy, in one call and to the same bit.
 *
 * A plan is a dozen calls of NumPy on arrays of a few numbers, made for each job and each step of a decision.
 * Here it is a walk over the pieces of the curve for one level after the other, up to the first that will do.
 * Sums are taken in the order of the pieces, as NumPy takes those that accumulate.
 */

#include <math.h>
#include <stdint.h>

#include "../native.h"

/* The numbers of an array that lies in one piece; 0 with an error if it has others. */
static int numbers_of(PyObject *array, Py_buffer *view, char kind)
{
    if (PyObject_GetBuffer(array, view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0)
        return 0;
    char has = view->format ? view->format[0] : 'B';
    if (view->itemsize == 8 && (has == kind || (kind == 'l' && has == 'q')))
        return 1;
    PyBuffer_Release(view);
    PyErr_SetString(PyExc_TypeError, "expected an array of int64 or of float64");
    return 0;
}

/* As many arrays as there are kinds, their views and what they hold; 0 with an error. */
static int arrays(PyObject *const *given, const char *kinds, Py_buffer *views, void **numbers)
{
    for (int at = 0; kinds[at]; at++) {
        if (!numbers_of(given[at], &views[at], kinds[at])) {
            while (at--)
                PyBuffer_Release(&views[at]);
            return 0;
        }
        numbers[at] = views[at].buf;
    }
    return 1;
}

static void let_go(Py_buffer *views, int count)
{
    while (count--)
        PyBuffer_Release(&views[count]);
}

/* (starts, free, starts of the plan, its GPUs, sign, starts to write, free to write) -> pieces written. */
static PyObject *curve_with(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    if (!takes(count, 7))
        return NULL;
    int64_t sign = PyLong_AsLongLong(args[4]);
    PyObject *given[] = {args[0], args[1], args[2], args[3], args[5], args[6]};
    Py_buffer views[6];
    void *numbers[6];
    if (PyErr_Occurred() || !arrays(given, "llllll", views, numbers))
        return NULL;
    const int64_t *starts = numbers[0], *free = numbers[1], *own = numbers[2], *gpus = numbers[3];
    int64_t *out_starts = numbers[4], *out_free = numbers[5];
    int64_t pieces = views[0].len / 8, owned = views[2].len / 8, written = 0;
    for (int64_t here = 0, there = 0; here < pieces || there < owned;) {
        int64_t at = there == owned || (here < pieces && starts[here] <= own[there]) ? starts[here] : own[there];
        here += here < pieces && starts[here] == at;
        there += there < owned && own[there] == at;
        int64_t left = free[here - 1] + sign * gpus[there - 1];
        if (!written || left != out_free[written - 1])
            out_starts[written] = at, out_free[written++] = left;
    }
    let_go(views, 6);
    return PyLong_FromLongLong(written);
}

typedef struct {
    const int64_t *starts, *free; /* of the pieces of a curve */
    int64_t pieces;
    int is_split;                 /* the present slot is a piece of its own, the rest of the first one follows */
    const int64_t *gpus;          /* of each level, ascending from 0 */
    const double *rates;
    int64_t levels;
    double work, now, pause;
    int64_t first, held;          /* the level in the present slot, or -1; GPUs before it */
} Wish;

static int64_t start_of(const Wish *wish, int64_t piece)
{
    if (wish->is_split && piece)
        return piece == 1 ? 1 : wish->starts[piece - 1];
    return wish->starts[piece];
}

static double begin_of(const Wish *wish, int64_t piece)
{
    double start = (double)start_of(wish, piece);
    return start > wish->now ? start : wish->now;
}

/* The level in a piece if it is to be `limit` at most. */
static int64_t level_in(const Wish *wish, int64_t piece, int64_t limit)
{
    if (!piece && wish->first >= 0)
        return wish->first;
    int64_t free = wish->free[wish->is_split && piece ? piece - 1 : piece], level = limit;
    while (wish->gpus[level] > free)
        level--;
    return level;
}

/* When the work is done at `limit`; infinite if never. */
static double end_at(const Wish *wish, int64_t limit)
{
    double enough = wish->work * (1.0 - 1e-9), done = 0.0, before = 0.0, rate_then = 0.0, lost_then = 0.0;
    double begin_then = 0.0;
    int64_t pieces = wish->pieces + wish->is_split, held = wish->held;
    int is_reached = 0;
    for (int64_t piece = 0; piece < pieces; piece++) {
        int64_t level = level_in(wish, piece, limit), gpus = wish->gpus[level];
        double rate = wish->rates[level], begin = begin_of(wish, piece), was = done;
        double length = piece + 1 < pieces ? begin_of(wish, piece + 1) - begin : INFINITY;
        double lost = wish->pause != 0.0 && gpus != held ? rate * wish->pause : 0.0;
        double does = (rate > 0.0 ? rate * length : 0.0) - lost;
        done = piece ? done + does : does;
        if (!is_reached && done >= enough) {
            is_reached = 1;
            before = piece ? was : 0.0;
            rate_then = rate, lost_then = lost, begin_then = begin;
        }
        held = gpus;
    }
    if (!(done >= enough)) /* at the end of the last piece, which has no end */
        return INFINITY;
    double left = wish->work - before;
    left = (left > 0.0 ? left : 0.0) + lost_then;
    return begin_then + left / rate_then;
}

/* Write the plan at `limit` that ends at `end`; how many pieces it has. */
static int64_t cut(const Wish *wish, int64_t limit, double end, int64_t *starts, int64_t *gpus)
{
    int64_t last = (int64_t)ceil(end - 1e-6), written = 0, pieces = wish->pieces + wish->is_split;
    for (int64_t piece = 0; piece < pieces; piece++) {
        int64_t start = start_of(wish, piece);
        if (start >= last)
            break;
        int64_t has = wish->gpus[level_in(wish, piece, limit)];
        if (!written || has != gpus[written - 1])
            starts[written] = start, gpus[written++] = has;
    }
    if (!written || gpus[written - 1])
        starts[written] = last, gpus[written++] = 0;
    return written;
}

/* (starts, free, GPUs of levels, their rates, starts to write, GPUs to write, work, due, lowest limit, first
 * beyond, level now or -1, now, pause, held) -> pieces written and the end; None if no limit will do, and
 * False where this is for NumPy. */
static PyObject *lowest(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    if (!takes(count, 14))
        return NULL;
    double work = PyFloat_AsDouble(args[6]), due = PyFloat_AsDouble(args[7]);
    int64_t limit = PyLong_AsLongLong(args[8]), beyond = PyLong_AsLongLong(args[9]);
    int64_t first = PyLong_AsLongLong(args[10]), held = PyLong_AsLongLong(args[13]);
    double now = PyFloat_AsDouble(args[11]), pause = PyFloat_AsDouble(args[12]);
    Py_buffer views[6];
    void *numbers[6];
    if (PyErr_Occurred() || !arrays(args, "llldll", views, numbers))
        return NULL;
    Wish wish = {numbers[0], numbers[1], views[0].len / 8, 0, numbers[2], numbers[3], views[2].len / 8,
                 work, now, pause, first, held};
    wish.is_split = first >= 0 && (wish.pieces == 1 || wish.starts[1] > 1);
    PyObject *answer = NULL;
    int64_t negative = 0;
    for (int64_t piece = 0; piece < wish.pieces; piece++)
        negative += wish.free[piece] < 0;
    double latest = due * (1.0 + 1e-9) + 1e-9, end = INFINITY;
    if (negative || limit < 0 || beyond > wish.levels || first >= wish.levels) {
        answer = Py_NewRef(Py_False);
    } else {
        for (; limit < beyond; limit++) {
            end = end_at(&wish, limit);
            if (end <= latest)
                break;
        }
        if (limit >= beyond || end == INFINITY)
            answer = Py_NewRef(Py_None);
        else if (!(fabs(end) < 9e15))
            answer = Py_NewRef(Py_False);
        else
            answer = Py_BuildValue("(Ld)", (long long)cut(&wish, limit, end, numbers[4], numbers[5]), end);
    }
    let_go(views, 6);
    return answer;
}

static PyMethodDef methods[] = {FUNCTION(curve_with), FUNCTION(lowest), {NULL, NULL, 0, NULL}};

PyObject *functions(void)
{
    return by_name(methods);
}
