/* The walk of `interior.py` for small programs, number by number.
 *
 * A dozen jobs make a program of some thirty rows: there a call of NumPy costs more than its arithmetic.  Here
 * the same steps are taken in loops.  Rows that many columns have in common (GPUs of a type) are eliminated
 * last, so that the factors of a program of n jobs have some n entries.
 *
 *     minimise c x  with  G x + s = h,  s >= 0,  G = [diag(bounds); A]        n columns and perhaps a free one, m rows
 *
 * The last rows may be second-order cones, three rows each: there s_0 is to be at least the length of (s_1, s_2)
 * (Domahidi, Chu, Boyd, ECC 2013).  The free column may stand in bounds as well.
 *
 * Called by `inner_walk.py`, which says what goes in and out.
 */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const char built_of[] = BUILT_OF;

#define TOLERANCE 1e-8
#define MOST_STEPS 100
#define LEAST_STEP 1e-6
#define LARGEST_STEP 0.999
#define BACK_OFF 0.99
#define LEAST_CENTRING 1e-4
#define SCALINGS 3
#define REGULARISATION 1e-11
#define LEAST_PIVOT 1e-13 /* of a row's own entry: less is rounding, and refined away */
#define NOTHING 1e-12 /* what rounding may leave of 0 */
#define ACCURACY 1e-14 /* of the system of a step, relative to its sides */
#define MOST_REFINEMENTS 9
#define LEAST_GAIN 6.0 /* of a refinement: a factor */
#define LONG_ROW 8 /* rows with more entries are eliminated after those with fewer */

enum { OPTIMAL, INFEASIBLE, UNBOUNDED, NEAREST, NO_MEMORY };

typedef struct {
    int64_t n, m, columns, rows; /* columns with the free one; rows of G: n bounds, then m */
    int64_t cones, linear;       /* cones, and rows of G before them */
    const int64_t *starts, *of;  /* row i of A has the entries starts[i] up to starts[i + 1], in columns `of` */
    double *values, *free;       /* the free column in all rows of G; NULL if there is none */
    int64_t free_from;           /* rows of G before this one are 0 there: n where it stands in no bound, else 0 */
    double *bounds, *c, *h, *column_scale, *row_scale;
    const double *copies; /* of the rows of G; NULL for one each */
    /* The envelope of A D A' in the order of elimination. */
    int64_t *order, *first, *at, size;
    int64_t *side_by_side; /* first column of each row of A whose columns follow each other; else -1 */
    /* The system of one step. */
    double *w2, *scale, *lower, *rest_free, *by_free, of_free, *side, *towards;
    double *turn, *back, *square; /* of each cone: W, its inverse and W2, 3 x 3 */
    double *both;
    /* The iterate, and the nearest so far. */
    double *x, *s, *z, tau, kappa, of_s_z, of_h, of_c, *best_x, *best_s, *best_z, best_tau, nearest;
    double *miss_x, *miss_z, miss_tau;
} Walk;

static double dot(int64_t n, const double *one, const double *other)
{
    double total = 0.0;
    for (int64_t i = 0; i < n; i++)
        total += one[i] * other[i];
    return total;
}

static double norm(int64_t n, const double *values)
{
    return sqrt(dot(n, values, values));
}

static double root(double largest)
{
    return largest < 1e-6 ? 1.0 : sqrt(largest);
}

static double larger(double one, double other)
{
    return one > other ? one : other;
}

/* -- scaling ------------------------------------------------------------------------------------- */

/* Divide rows and columns by the root of their largest entry. */
static void scale_once(Walk *p, double *by_row, double *by_column)
{
    int64_t n = p->n;
    if (p->free)
        by_column[n] = 0.0;
    for (int64_t j = 0; j < n; j++)
        by_row[j] = by_column[j] = fabs(p->bounds[j]);
    for (int64_t i = 0; i < p->m; i++) {
        by_row[n + i] = 0.0;
        for (int64_t e = p->starts[i]; e < p->starts[i + 1]; e++) {
            double size = fabs(p->values[e]);
            by_row[n + i] = larger(by_row[n + i], size);
            by_column[p->of[e]] = larger(by_column[p->of[e]], size);
        }
    }
    for (int64_t i = 0; p->free && i < p->rows; i++) {
        by_row[i] = larger(by_row[i], fabs(p->free[i]));
        by_column[n] = larger(by_column[n], fabs(p->free[i]));
    }
    for (int64_t at = p->linear; at < p->rows; at += 3) /* a cone stays one */
        by_row[at] = by_row[at + 1] = by_row[at + 2] = by_row[at] + by_row[at + 1] + by_row[at + 2];
    for (int64_t j = 0; j < p->columns; j++) {
        by_column[j] = root(by_column[j]);
        p->column_scale[j] *= by_column[j];
    }
    for (int64_t i = 0; i < p->rows; i++) {
        by_row[i] = root(by_row[i]);
        p->row_scale[i] *= by_row[i];
        if (p->free)
            p->free[i] /= by_row[i] * by_column[n];
        if (i < n)
            p->bounds[i] /= by_row[i] * by_column[i];
    }
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t e = p->starts[i]; e < p->starts[i + 1]; e++)
            p->values[e] /= by_row[n + i] * by_column[p->of[e]];
}

/* One column or row stands for many: what they share adds up all copies. */
static void account_for_copies(Walk *p)
{
    for (int64_t i = 0; i < p->m; i++) {
        double of_row = sqrt(p->copies[p->n + i]);
        for (int64_t e = p->starts[i]; e < p->starts[i + 1]; e++) {
            double of_column = sqrt(p->copies[p->of[e]]), most = larger(of_row, of_column);
            p->values[e] *= most * most / (of_row * of_column);
        }
        if (p->free)
            p->free[p->n + i] *= larger(of_row, 1.0) * larger(of_row, 1.0) / of_row;
        p->h[p->n + i] *= of_row;
        p->row_scale[p->n + i] /= of_row; /* a copy's own s: divided by the root again */
    }
    for (int64_t j = 0; j < p->n; j++) {
        p->c[j] *= sqrt(p->copies[j]);
        p->column_scale[j] *= sqrt(p->copies[j]);
    }
}

/* -- the order of elimination -------------------------------------------------------------------- */

/* The first row of the cone that `row` of A is in, or itself. */
static int64_t leader(const Walk *p, int64_t row)
{
    int64_t within = p->n + row - p->linear;
    return within < 0 ? row : row - within % 3;
}

static int64_t least_column(const Walk *p, int64_t row)
{
    int64_t least = p->n;
    row = leader(p, row);
    for (int64_t e = p->starts[row]; e < p->starts[row + 1]; e++)
        least = p->of[e] < least ? p->of[e] : least;
    return least;
}

static int comes_after(const Walk *p, int64_t one, int64_t other)
{
    int64_t of_one = leader(p, one), of_other = leader(p, other);
    int long_one = p->starts[of_one + 1] - p->starts[of_one] > LONG_ROW;
    int long_other = p->starts[of_other + 1] - p->starts[of_other] > LONG_ROW;
    if (long_one != long_other)
        return long_one;
    int64_t first_one = least_column(p, one), first_other = least_column(p, other);
    return first_one != first_other ? first_one > first_other : one > other;
}

/* Rows in the order in which they are eliminated, and where the envelope of each begins. */
static void plan(Walk *p, int64_t *place, int64_t *earliest)
{
    for (int64_t i = 0; i < p->m; i++) {
        int64_t k = i;
        for (; k > 0 && comes_after(p, p->order[k - 1], i); k--)
            p->order[k] = p->order[k - 1];
        p->order[k] = i;
    }
    for (int64_t k = 0; k < p->m; k++)
        place[p->order[k]] = k;
    for (int64_t j = 0; j < p->n; j++)
        earliest[j] = p->m;
    for (int64_t k = 0; k < p->m; k++)
        for (int64_t e = p->starts[p->order[k]]; e < p->starts[p->order[k] + 1]; e++)
            if (earliest[p->of[e]] > k)
                earliest[p->of[e]] = k;
    for (int64_t i = 0; i < p->m; i++) {
        const int64_t *of = p->of + p->starts[i], count = p->starts[i + 1] - p->starts[i];
        p->side_by_side[i] = count ? of[0] : -1;
        for (int64_t e = 1; e < count; e++)
            if (of[e] != of[0] + e)
                p->side_by_side[i] = -1;
    }
    p->size = 0;
    for (int64_t k = 0; k < p->m; k++) {
        p->first[k] = k;
        for (int64_t e = p->starts[p->order[k]]; e < p->starts[p->order[k] + 1]; e++)
            if (earliest[p->of[e]] < p->first[k])
                p->first[k] = earliest[p->of[e]];
        if (place[leader(p, p->order[k])] < p->first[k])
            p->first[k] = place[leader(p, p->order[k])];
        p->size += k - p->first[k];
        p->at[k] = p->size++;
    }
}

/* -- products ------------------------------------------------------------------------------------ */

/* `total`, and row i of A times x added to it, entry by entry. */
static inline double row_times(const Walk *p, int64_t i, const double *restrict x, double total)
{
    int64_t begin = p->starts[i], count = p->starts[i + 1] - begin, first = p->side_by_side[i];
    const double *restrict values = p->values + begin;
    if (first >= 0 && count == 3) { /* most are: a job's time on three types */
        x += first;
        return total + values[0] * x[0] + values[1] * x[1] + values[2] * x[2];
    }
    if (first >= 0) {
        x += first;
        for (int64_t e = 0; e < count; e++)
            total += values[e] * x[e];
    } else {
        const int64_t *restrict of = p->of + begin;
        for (int64_t e = 0; e < count; e++)
            total += values[e] * x[of[e]];
    }
    return total;
}

/* y += row i of A times `by` */
static inline void add_row(const Walk *p, int64_t i, double by, double *restrict y)
{
    int64_t begin = p->starts[i], count = p->starts[i + 1] - begin, first = p->side_by_side[i];
    const double *restrict values = p->values + begin;
    if (first >= 0 && count == 3) {
        y += first;
        y[0] += values[0] * by;
        y[1] += values[1] * by;
        y[2] += values[2] * by;
        return;
    }
    if (first >= 0) {
        y += first;
        for (int64_t e = 0; e < count; e++)
            y[e] += values[e] * by;
    } else {
        const int64_t *restrict of = p->of + begin;
        for (int64_t e = 0; e < count; e++)
            y[of[e]] += values[e] * by;
    }
}

/* y = G x */
static void of_x(const Walk *p, const double *restrict x, double *restrict y)
{
    const double *restrict bounds = p->bounds, *restrict free = p->free;
    int64_t n = p->n;
    double last = free ? x[n] : 0.0;
    if (free && !p->free_from)
        for (int64_t j = 0; j < n; j++)
            y[j] = bounds[j] * x[j] + free[j] * last;
    else
        for (int64_t j = 0; j < n; j++)
            y[j] = bounds[j] * x[j] + 0.0;
    for (int64_t i = 0; i < p->m; i++)
        y[n + i] = row_times(p, i, x, free ? free[n + i] * last : 0.0);
}

/* y = G' z */
static void of_z(const Walk *p, const double *restrict z, double *restrict y)
{
    const double *restrict bounds = p->bounds;
    for (int64_t j = 0; j < p->n; j++)
        y[j] = bounds[j] * z[j];
    for (int64_t i = 0; i < p->m; i++)
        add_row(p, i, z[p->n + i], y);
    if (p->free)
        y[p->n] = dot(p->rows - p->free_from, p->free + p->free_from, z + p->free_from);
}

/* y = W v, of all rows; with `back` W^-1 v, with `square` W2 v: `one` for rows outside of cones. */
static void times(const Walk *p, const double *one, const double *cones, const double *v, double *y)
{
    for (int64_t i = 0; i < p->linear; i++)
        y[i] = one[i] * v[i];
    for (int64_t at = p->linear; at < p->rows; at += 3, cones += 9) {
        double v0 = v[at], v1 = v[at + 1], v2 = v[at + 2];
        for (int k = 0; k < 3; k++)
            y[at + k] = cones[3 * k] * v0 + cones[3 * k + 1] * v1 + cones[3 * k + 2] * v2;
    }
}

/* -- the system of each step --------------------------------------------------------------------- */

/* An entry of W2. */
static double weight(const Walk *p, int64_t row, int64_t other)
{
    if (row < p->linear || other < p->linear)
        return row == other ? p->w2[row] : 0.0;
    int64_t one = row - p->linear, two = other - p->linear;
    return one / 3 == two / 3 ? p->square[one / 3 * 9 + one % 3 * 3 + two % 3] : 0.0;
}

/* A D A' + W2 = L L' for the rows, bounds eliminated; 0 if a number is not finite. */
static int factor_rows(Walk *p)
{
    double *dense = p->towards; /* row k of A, times D */
    for (int64_t k = 0; k < p->m; k++) {
        int64_t row = p->order[k];
        double *mine = p->lower + p->at[k] - k;
        for (int64_t e = p->starts[row]; e < p->starts[row + 1]; e++)
            dense[p->of[e]] += p->values[e] * p->scale[p->of[e]];
        for (int64_t j = p->first[k]; j <= k; j++) {
            int64_t other = p->order[j];
            mine[j] = row_times(p, other, dense, 0.0) + weight(p, p->n + row, p->n + other);
        }
        for (int64_t e = p->starts[row]; e < p->starts[row + 1]; e++)
            dense[p->of[e]] = 0.0;
        double rest = mine[k] + REGULARISATION, least = LEAST_PIVOT * rest;
        for (int64_t j = p->first[k]; j < k; j++) {
            const double *theirs = p->lower + p->at[j] - j;
            int64_t from = p->first[k] > p->first[j] ? p->first[k] : p->first[j];
            double value = mine[j];
            for (int64_t i = from; i < j; i++)
                value -= mine[i] * theirs[i];
            mine[j] = value / theirs[j];
            rest -= mine[j] * mine[j];
        }
        if (!isfinite(rest))
            return 0;
        mine[k] = sqrt(larger(rest, least));
    }
    return 1;
}

/* L L' solution = sides */
static void solve_rows(const Walk *p, const double *sides, double *solution)
{
    double *restrict y = p->side;
    for (int64_t k = 0; k < p->m; k++) {
        const double *restrict mine = p->lower + p->at[k] - k;
        double total = sides[p->order[k]];
        for (int64_t i = p->first[k]; i < k; i++)
            total -= mine[i] * y[i];
        y[k] = total / mine[k];
    }
    for (int64_t k = p->m - 1; k >= 0; k--) {
        const double *restrict mine = p->lower + p->at[k] - k;
        y[k] /= mine[k];
        for (int64_t i = p->first[k]; i < k; i++)
            y[i] -= mine[i] * y[k];
    }
    for (int64_t k = 0; k < p->m; k++)
        solution[p->order[k]] = y[k];
}

typedef double Two __attribute__((vector_size(16), aligned(8), may_alias)); /* the same number of two systems */

/* The same for two sides, which become their solutions: each waits for divisions that the other has no part in. */
static void solve_two_rows(const Walk *p, double *one, double *other)
{
    Two *restrict y = (Two *)p->side;
    for (int64_t k = 0; k < p->m; k++) {
        const double *restrict mine = p->lower + p->at[k] - k;
        Two total = {one[p->order[k]], other[p->order[k]]};
        for (int64_t i = p->first[k]; i < k; i++)
            total -= mine[i] * y[i];
        y[k] = total / mine[k];
    }
    for (int64_t k = p->m - 1; k >= 0; k--) {
        const double *restrict mine = p->lower + p->at[k] - k;
        y[k] /= mine[k];
        for (int64_t i = p->first[k]; i < k; i++)
            y[i] -= mine[i] * y[k];
    }
    for (int64_t k = 0; k < p->m; k++)
        one[p->order[k]] = y[k][0], other[p->order[k]] = y[k][1];
}

/* Factors for the weights in w2; 0 if there are none. */
static int factor(Walk *p)
{
    for (int64_t j = 0; j < p->n; j++)
        p->scale[j] = (p->w2[j] + REGULARISATION) / (p->bounds[j] * p->bounds[j]);
    memset(p->towards, 0, sizeof *p->towards * p->columns);
    if (!factor_rows(p))
        return 0;
    if (p->free) {
        for (int64_t i = 0; i < p->m; i++) {
            double total = p->free[p->n + i];
            for (int64_t e = p->starts[i]; !p->free_from && e < p->starts[i + 1]; e++)
                total -= p->values[e] * p->free[p->of[e]] / p->bounds[p->of[e]];
            p->rest_free[i] = total;
        }
        solve_rows(p, p->rest_free, p->by_free);
        p->of_free = dot(p->m, p->rest_free, p->by_free);
    }
    return 1;
}

/* A system of a step: [x, z] for the sides [a, b], which become what is missed; and what a refinement adds. */
typedef struct {
    double *a, *b, *x, *z, *more_x, *more_z, enough, before;
} Sides;

/* x = D (a - A' z) + b / bounds; what remains is of the size of the rows: its sides. */
static void sides_of_rows(Walk *p, const double *a, const double *b, double *of_rows)
{
    double *towards = p->towards;
    for (int64_t j = 0; j < p->n; j++)
        towards[j] = p->scale[j] * a[j] + b[j] / p->bounds[j];
    for (int64_t i = 0; i < p->m; i++) {
        of_rows[i] = row_times(p, i, towards, -b[p->n + i]);
    }
}

/* The rest of it, once the rows of z are known.  `x` and `z` are not `a` and `b`. */
static void solve_rest(const Walk *p, const double *a, const double *b, double *x, double *z)
{
    double *of_rows = z + p->n;
    if (p->free) {
        double of_bounds = 0.0;
        for (int64_t j = p->free_from; j < p->n; j++)
            of_bounds += p->free[j] * a[j] / p->bounds[j];
        x[p->n] = (a[p->n] - of_bounds - dot(p->m, p->rest_free, of_rows)) / p->of_free;
        for (int64_t i = 0; i < p->m; i++)
            of_rows[i] += p->by_free[i] * x[p->n];
    }
    memcpy(x, a, sizeof *x * p->n);
    for (int64_t i = 0; i < p->m; i++)
        add_row(p, i, -of_rows[i], x);
    if (p->free && !p->free_from)
        for (int64_t j = 0; j < p->n; j++) {
            z[j] = x[j] / p->bounds[j];
            x[j] = p->scale[j] * x[j] + (b[j] - p->free[j] * x[p->n]) / p->bounds[j];
        }
    else
        for (int64_t j = 0; j < p->n; j++) {
            z[j] = x[j] / p->bounds[j];
            x[j] = p->scale[j] * x[j] + b[j] / p->bounds[j];
        }
}

/* Four at a time: each comparison would wait for the one before. */
static double largest(int64_t n, const double *values)
{
    double most[4] = {0.0, 0.0, 0.0, 0.0};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            most[k] = fabs(values[i + k]) > most[k] ? fabs(values[i + k]) : most[k];
    for (; i < n; i++)
        most[0] = fabs(values[i]) > most[0] ? fabs(values[i]) : most[0];
    return larger(larger(most[0], most[1]), larger(most[2], most[3]));
}

/* x and z of each of the one or two systems, or more of them. */
static void solve_once(Walk *p, Sides *const *of, int count, int more)
{
    double *rows[2] = {NULL, NULL};
    for (int i = 0; i < count; i++) {
        rows[i] = (more ? of[i]->more_z : of[i]->z) + p->n;
        sides_of_rows(p, of[i]->a, of[i]->b, rows[i]);
    }
    if (count == 2)
        solve_two_rows(p, rows[0], rows[1]);
    else
        solve_rows(p, rows[0], rows[0]);
    for (int i = 0; i < count; i++) {
        const Sides *s = of[i];
        solve_rest(p, s->a, s->b, more ? s->more_x : s->x, more ? s->more_z : s->z);
    }
}

/* a and b become what is missed after k refinements, each of which takes away what the last one added; 1 if
 * another one is worth it. */
static int is_worth_more(const Walk *p, Sides *s, int k)
{
    const double *last_x = k ? s->more_x : s->x, *last_z = k ? s->more_z : s->z;
    double *of_x_now = p->both, *of_z_now = of_x_now + p->rows, *weighted = of_z_now + p->columns;
    of_x(p, last_x, of_x_now);
    of_z(p, last_z, of_z_now);
    times(p, p->w2, p->square, last_z, weighted);
    for (int64_t j = 0; j < p->columns; j++)
        s->a[j] -= of_z_now[j];
    for (int64_t i = 0; i < p->rows; i++)
        s->b[i] += weighted[i] - of_x_now[i];
    double missed = larger(largest(p->columns, s->a), largest(p->rows, s->b)), before = s->before;
    if (k && !(missed <= before)) { /* the last one has done harm */
        for (int64_t j = 0; j < p->columns; j++)
            s->x[j] -= s->more_x[j];
        for (int64_t i = 0; i < p->rows; i++)
            s->z[i] -= s->more_z[i];
        return 0;
    }
    s->before = missed;
    return !(k == MOST_REFINEMENTS || missed < s->enough || (k && before < LEAST_GAIN * missed));
}

/* One or two systems solved, each refined until little is missed or a refinement gains little; that takes the
 * regularisation out again. */
static void solve(Walk *p, Sides *const *of, int count)
{
    Sides *left[2] = {of[0], count == 2 ? of[1] : NULL};
    for (int i = 0; i < count; i++) {
        Sides *s = left[i];
        s->enough = ACCURACY * (1.0 + larger(largest(p->columns, s->a), largest(p->rows, s->b)));
        s->before = INFINITY;
    }
    solve_once(p, left, count, 0);
    for (int k = 0; k <= MOST_REFINEMENTS; k++) {
        int still = 0;
        for (int i = 0; i < count; i++)
            if (is_worth_more(p, left[i], k))
                left[still++] = left[i];
        if (!(count = still))
            return;
        solve_once(p, left, count, 1);
        for (int i = 0; i < count; i++) {
            for (int64_t j = 0; j < p->columns; j++)
                left[i]->x[j] += left[i]->more_x[j];
            for (int64_t j = 0; j < p->rows; j++)
                left[i]->z[j] += left[i]->more_z[j];
        }
    }
}

/* -- the walk ------------------------------------------------------------------------------------ */

/* All of it above 0, else moved until the least is 1, copy by copy. */
static void move_inside(const Walk *p, double *r)
{
    double least = INFINITY;
    for (int64_t i = 0; i < p->linear; i++) {
        double each = p->copies ? r[i] / sqrt(p->copies[i]) : r[i];
        least = each < least ? each : least;
    }
    for (int64_t at = p->linear; at < p->rows; at += 3) {
        double each = r[at] - hypot(r[at + 1], r[at + 2]);
        least = each < least ? each : least;
    }
    if (least > NOTHING)
        return;
    for (int64_t i = 0; i < p->linear; i++)
        r[i] += (1.0 - least) * (p->copies ? sqrt(p->copies[i]) : 1.0);
    for (int64_t at = p->linear; at < p->rows; at += 3)
        r[at] += 1.0 - least;
}

/* The points that miss the equations least, moved inside. */
static int start(Walk *p, Sides *one, Sides *other)
{
    for (int64_t i = 0; i < p->rows; i++)
        p->w2[i] = 1.0;
    memset(p->square, 0, sizeof *p->square * 9 * p->cones);
    for (int64_t k = 0; k < p->cones; k++)
        p->square[9 * k] = p->square[9 * k + 4] = p->square[9 * k + 8] = 1.0;
    if (!factor(p))
        return 0;
    memset(one->a, 0, sizeof *one->a * p->columns);
    memcpy(one->b, p->h, sizeof *one->b * p->rows);
    for (int64_t j = 0; j < p->columns; j++)
        other->a[j] = -p->c[j];
    memset(other->b, 0, sizeof *other->b * p->rows);
    solve(p, (Sides *[]){one, other}, 2);
    memcpy(p->x, one->x, sizeof *p->x * p->columns);
    for (int64_t i = 0; i < p->rows; i++)
        p->s[i] = -one->z[i];
    memcpy(p->z, other->z, sizeof *p->z * p->rows);
    move_inside(p, p->s);
    move_inside(p, p->z);
    p->tau = p->kappa = 1.0;
    return 1;
}

static void keep_nearest(Walk *p, double miss)
{
    p->nearest = miss;
    memcpy(p->best_x, p->x, sizeof *p->x * p->columns);
    memcpy(p->best_s, p->s, sizeof *p->s * p->rows);
    memcpy(p->best_z, p->z, sizeof *p->z * p->rows);
    p->best_tau = p->tau;
}

/* What is known at this point, NEAREST if not enough; fills what it misses by. */
static int look(Walk *p)
{
    double tau = p->tau, *of_z_now = p->miss_x, *filled = p->miss_z;
    of_z(p, p->z, of_z_now);
    of_x(p, p->x, filled);
    /* Sums side by side: in each, an addition waits for the one before. */
    double of_z_norm = 0.0, cost = 0.0, size_x = 0.0, missed_x = 0.0;
    for (int64_t j = 0; j < p->columns; j++) {
        of_z_norm += of_z_now[j] * of_z_now[j];
        cost += p->c[j] * p->x[j];
        size_x += p->x[j] * p->x[j];
        p->miss_x[j] = -(of_z_now[j] + tau * p->c[j]);
        missed_x += p->miss_x[j] * p->miss_x[j];
    }
    double filled_norm = 0.0, bound = 0.0, size_s = 0.0, size_z = 0.0, missed_z = 0.0, of_s_z = 0.0;
    for (int64_t i = 0; i < p->rows; i++) {
        double now = filled[i] + p->s[i], miss = now - tau * p->h[i];
        filled_norm += now * now;
        bound += p->h[i] * p->z[i];
        size_s += p->s[i] * p->s[i];
        size_z += p->z[i] * p->z[i];
        of_s_z += p->s[i] * p->z[i];
        p->miss_z[i] = miss;
        missed_z += miss * miss;
    }
    of_z_norm = sqrt(of_z_norm), filled_norm = sqrt(filled_norm), bound = -bound;
    size_x = sqrt(size_x), size_s = sqrt(size_s), size_z = sqrt(size_z);
    p->of_s_z = of_s_z;
    p->miss_tau = p->kappa + cost - bound;
    double misses = larger(sqrt(missed_z) / (p->of_h + size_x + size_s), sqrt(missed_x) / (p->of_c + size_z)) / tau;
    double gap = of_s_z / larger(1.0, larger(-cost / tau, bound / tau));
    double miss = larger(misses, gap);
    if (miss < p->nearest)
        keep_nearest(p, miss);
    if (miss < TOLERANCE)
        return OPTIMAL;
    if (tau >= p->kappa)
        return NEAREST;
    double near_z = TOLERANCE * larger(1.0, size_z), near_x = TOLERANCE * larger(1.0, size_x);
    if (bound > near_z && of_z_norm < near_z)
        return INFEASIBLE;
    return -cost > near_x && filled_norm < near_x ? UNBOUNDED : NEAREST;
}

/* By how much the first entry of a cone exceeds the others, in squares; above 0 inside. */
static double room_in(const double *v)
{
    return v[0] * v[0] - v[1] * v[1] - v[2] * v[2];
}

/* One over the way from `at` in the direction `by` to the wall of the cone; below 0 if there is none. */
static double wall(const double *at, const double *by)
{
    double size = sqrt(room_in(at)), u0 = at[0] / size, u1 = at[1] / size, u2 = at[2] / size;
    double along = u0 * by[0] - u1 * by[1] - u2 * by[2], part = (along + by[0]) / (u0 + 1.0);
    return (hypot(by[1] - part * u1, by[2] - part * u2) - along) / size;
}

/* one o two, in the algebra of the cone. */
static void product(const double *one, const double *two, double *into)
{
    double first = one[0] * two[0] + one[1] * two[1] + one[2] * two[2];
    into[1] = one[0] * two[1] + two[0] * one[1];
    into[2] = one[0] * two[2] + two[0] * one[2];
    into[0] = first;
}

/* What times `by`, in that algebra, is `v`. */
static void quotient(const double *by, const double *v, double *into)
{
    double inside = room_in(by), along = by[1] * v[1] + by[2] * v[2];
    double factor = (along / by[0] - v[0]) / inside, first = (by[0] * v[0] - along) / inside;
    into[1] = factor * by[1] + v[1] / by[0];
    into[2] = factor * by[2] + v[2] / by[0];
    into[0] = first;
}

/* W of the cones, at which s and z look alike: W z = W^-1 s; 0 if one of them is outside. */
static int turn_cones(Walk *p)
{
    for (int64_t k = 0; k < p->cones; k++) {
        const double *s = p->s + p->linear + 3 * k, *z = p->z + p->linear + 3 * k;
        double in_s = room_in(s), in_z = room_in(z);
        if (!(in_s > 0.0 && in_z > 0.0))
            return 0;
        double root_s = sqrt(in_s), root_z = sqrt(in_z), size = sqrt(root_s / root_z), w[3];
        double alike = (s[0] * z[0] + s[1] * z[1] + s[2] * z[2]) / (root_s * root_z);
        double twice = 2.0 * sqrt((1.0 + alike) / 2.0);
        w[0] = (s[0] / root_s + z[0] / root_z) / twice;
        w[1] = (s[1] / root_s - z[1] / root_z) / twice;
        w[2] = (s[2] / root_s - z[2] / root_z) / twice;
        double *turn = p->turn + 9 * k, *back = p->back + 9 * k, *square = p->square + 9 * k;
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) {
                double unit = i == j ? 1.0 : 0.0;
                int is_tail = i > 0 && j > 0;
                double entry = is_tail ? unit + w[i] * w[j] / (1.0 + w[0]) : w[i + j];
                turn[3 * i + j] = size * entry;
                back[3 * i + j] = (is_tail || i == j ? entry : -entry) / size;
                square[3 * i + j] = size * size * (2.0 * w[i] * w[j] + (i == 0 && j == 0 ? -1.0 : unit));
            }
    }
    return 1;
}

/* How far one may go until something is at a wall. */
static double step_length(const Walk *p, const double *scaled, const double *ds, const double *dz, double tau,
                          double kappa)
{
    double steepest = larger(larger(-tau / p->tau, -kappa / p->kappa), 1e-13);
    for (int64_t i = 0; i < p->linear; i++)
        steepest = larger(steepest, larger(-ds[i] / scaled[i], -dz[i] / scaled[i]));
    for (int64_t at = p->linear; at < p->rows; at += 3)
        steepest = larger(steepest, larger(wall(scaled + at, ds + at), wall(scaled + at, dz + at)));
    double length = larger(1.0 / steepest, LEAST_STEP);
    return length < LARGEST_STEP ? length : LARGEST_STEP;
}

/* Room for one step. */
typedef struct {
    double *w, *scaled, *dz, *ds, *complement, *back;
    Sides one, two;
} Room;

/* Where s and z go, both as they look at W, if the rest of s o z goes away. */
static void towards(const Walk *p, const Room *r, double tau, const double *rest)
{
    for (int64_t i = 0; i < p->rows; i++)
        r->back[i] = r->two.z[i] + tau * r->one.z[i];
    times(p, r->w, p->turn, r->back, r->dz);
    for (int64_t i = 0; i < p->rows; i++)
        r->ds[i] = -(rest[i] + r->dz[i]);
}

/* One step: where Newton's method would go, then a corrected one that keeps away from the walls; 0 where
 * rounding leaves no direction. */
static int step(Walk *p, Room *r)
{
    Sides *one = &r->one, *two = &r->two;
    int64_t rows = p->rows, linear = p->linear, columns = p->columns;
    double copies = p->cones;
    for (int64_t i = 0; i < linear; i++) {
        p->w2[i] = p->s[i] / p->z[i];
        r->w[i] = sqrt(p->w2[i]);
        copies += p->copies ? p->copies[i] : 1.0;
    }
    if (!turn_cones(p))
        return 0;
    times(p, r->w, p->turn, p->z, r->scaled);
    double mu = (p->of_s_z + p->kappa * p->tau) / (copies + 1.0);
    if (!factor(p))
        return 0;
    for (int64_t j = 0; j < columns; j++)
        one->a[j] = -p->c[j];
    memcpy(one->b, p->h, sizeof *one->b * rows);
    memcpy(two->a, p->miss_x, sizeof *two->a * columns);
    for (int64_t i = 0; i < rows; i++)
        two->b[i] = p->s[i] - p->miss_z[i];
    solve(p, (Sides *[]){one, two}, 2);
    double denominator = p->kappa / p->tau - (dot(columns, p->c, one->x) + dot(rows, p->h, one->z));
    /* Straight to complementarity 0, ... */
    double ahead = dot(columns, p->c, two->x) + dot(rows, p->h, two->z);
    double tau = (p->miss_tau - p->kappa + ahead) / denominator;
    towards(p, r, tau, r->scaled);
    double kappa = -p->kappa * (p->tau + tau) / p->tau;
    double length = step_length(p, r->scaled, r->ds, r->dz, tau, kappa);
    /* ... then what that misses by corrected, towards the middle. */
    double centring = (1.0 - length) * (1.0 - length) * (1.0 - length);
    centring = larger(centring, LEAST_CENTRING) < 1.0 ? larger(centring, LEAST_CENTRING) : 1.0;
    double rest = 1.0 - centring, target = centring * mu;
    for (int64_t i = 0; i < linear; i++) {
        double aim = p->copies ? target * p->copies[i] : target;
        r->complement[i] = r->scaled[i] + (r->ds[i] * r->dz[i] - aim) / r->scaled[i];
    }
    for (int64_t at = linear; at < rows; at += 3) {
        product(r->ds + at, r->dz + at, r->back);
        r->back[0] -= target;
        quotient(r->scaled + at, r->back, r->complement + at);
        for (int k = 0; k < 3; k++)
            r->complement[at + k] += r->scaled[at + k];
    }
    times(p, r->w, p->turn, r->complement, two->b);
    for (int64_t i = 0; i < rows; i++)
        two->b[i] -= rest * p->miss_z[i];
    for (int64_t j = 0; j < columns; j++)
        two->a[j] = rest * p->miss_x[j];
    double of_kappa = p->kappa * p->tau + kappa * tau - target;
    solve(p, &two, 1);
    ahead = dot(columns, p->c, two->x) + dot(rows, p->h, two->z);
    tau = (rest * p->miss_tau - of_kappa / p->tau + ahead) / denominator;
    towards(p, r, tau, r->complement);
    kappa = -(of_kappa + p->kappa * tau) / p->tau;
    length = BACK_OFF * step_length(p, r->scaled, r->ds, r->dz, tau, kappa);
    int sound = 1;
    for (int64_t j = 0; j < columns; j++) {
        p->x[j] += length * (two->x[j] + tau * one->x[j]);
        sound &= isfinite(p->x[j]) != 0;
    }
    for (int64_t i = 0; i < linear; i++) {
        p->s[i] += length * r->w[i] * r->ds[i];
        p->z[i] += length * r->dz[i] / r->w[i];
        sound &= p->s[i] > 0.0 && p->z[i] > 0.0;
    }
    times(p, r->w, p->turn, r->ds, two->b);
    times(p, r->w, p->back, r->dz, r->back);
    for (int64_t i = linear; i < rows; i++) {
        p->s[i] += length * two->b[i];
        p->z[i] += length * r->back[i];
    }
    for (int64_t at = linear; at < rows; at += 3)
        sound &= p->s[at] > 0.0 && p->z[at] > 0.0;
    p->tau += length * tau;
    p->kappa += length * kappa;
    return sound && p->tau > 0.0 && p->kappa > 0.0;
}

/* What is asked for, in columns and rows of similar size. */
static void prepare(Walk *p, const double *costs, const double *limits, double of_free, double *by_row,
                    double *by_column, int64_t *place, int64_t *earliest)
{
    for (int64_t j = 0; j < p->columns; j++)
        p->column_scale[j] = 1.0;
    for (int64_t i = 0; i < p->rows; i++)
        p->row_scale[i] = 1.0;
    for (int k = 0; k < SCALINGS; k++)
        scale_once(p, by_row, by_column);
    for (int64_t j = 0; j < p->columns; j++)
        p->c[j] = -(j < p->n ? costs[j] : of_free) / p->column_scale[j];
    for (int64_t i = 0; i < p->rows; i++)
        p->h[i] = limits[i] / p->row_scale[i];
    if (p->copies)
        account_for_copies(p);
    p->of_h = larger(1.0, norm(p->rows, p->h)), p->of_c = larger(1.0, norm(p->columns, p->c));
    plan(p, place, earliest);
}

static int walk(Walk *p, Room *room)
{
    p->nearest = INFINITY;
    if (!start(p, &room->one, &room->two))
        return NEAREST;
    for (int k = 0; k < MOST_STEPS; k++) {
        int known = look(p);
        if (known != NEAREST)
            return known;
        if (!step(p, room))
            break;
    }
    return NEAREST;
}

/* In: the program of `InnerProgram` with all its rows: bounds, those of A, cones.  Out: the point (columns), what
 * is left of the limits and their prices (m each), and by how much the point misses equations or the optimum.
 * Says how it ended. */
int inner_walk(int64_t n, int64_t m, int64_t cones, const int64_t *starts, const int64_t *of, const double *values,
               const double *bounds, const double *costs, const double *limits, const double *free_column,
               double of_free, const double *copies, double *x, double *slack, double *prices, double *miss)
{
    int64_t entries = starts[m], columns = n + (free_column != NULL), rows = n + m, both = columns + rows;
    size_t numbers = entries + 16 * columns + 30 * rows + 27 * cones + 3 * both + (size_t)m * (m + 1) / 2;
    double *next = calloc(numbers, sizeof *next);
    int64_t *whole_numbers = calloc(5 * m + n + 1, sizeof *whole_numbers);
    if (!next || !whole_numbers) {
        free(next);
        free(whole_numbers);
        return NO_MEMORY;
    }
    double *memory = next;
#define TAKE(count) (next += (count), next - (count))
    Walk p = {.n = n, .m = m, .columns = columns, .rows = rows, .starts = starts, .of = of, .copies = copies};
    p.cones = cones, p.linear = rows - 3 * cones;
    p.values = memcpy(TAKE(entries), values, sizeof *values * entries);
    p.free = free_column ? memcpy(TAKE(rows), free_column, sizeof *free_column * rows) : NULL;
    p.free_from = n;
    for (int64_t j = 0; free_column && j < n; j++)
        if (free_column[j] != 0.0)
            p.free_from = 0;
    p.bounds = memcpy(TAKE(n), bounds, sizeof *bounds * n);
    p.c = TAKE(columns), p.h = TAKE(rows), p.column_scale = TAKE(columns), p.row_scale = TAKE(rows);
    p.w2 = TAKE(rows), p.scale = TAKE(n), p.lower = TAKE(m * (m + 1) / 2), p.side = TAKE(2 * m);
    p.rest_free = TAKE(m), p.by_free = TAKE(m), p.turn = TAKE(9 * cones), p.back = TAKE(9 * cones);
    p.square = TAKE(9 * cones);
    p.towards = TAKE(columns), p.both = TAKE(3 * both);
    p.x = TAKE(columns), p.s = TAKE(rows), p.z = TAKE(rows);
    p.best_x = TAKE(columns), p.best_s = TAKE(rows), p.best_z = TAKE(rows);
    p.miss_x = TAKE(columns), p.miss_z = TAKE(rows);
    Room room = {TAKE(rows), TAKE(rows), TAKE(rows), TAKE(rows), TAKE(rows), TAKE(rows), {NULL}, {NULL}};
    for (int i = 0; i < 2; i++) {
        Sides *s = i ? &room.two : &room.one;
        s->a = TAKE(columns), s->x = TAKE(columns), s->more_x = TAKE(columns);
        s->b = TAKE(rows), s->z = TAKE(rows), s->more_z = TAKE(rows);
    }
    double *by_row = TAKE(rows), *by_column = TAKE(columns);
#undef TAKE
    p.order = whole_numbers, p.first = p.order + m, p.at = p.first + m;
    p.side_by_side = p.at + m;
    int64_t *place = p.side_by_side + m, *earliest = place + m;
    prepare(&p, costs, limits, of_free, by_row, by_column, place, earliest);
    int ended = walk(&p, &room);
    *miss = p.nearest;
    for (int64_t j = 0; j < columns; j++)
        x[j] = p.best_x[j] / (p.best_tau * p.column_scale[j]);
    for (int64_t i = n; i < rows; i++) {
        slack[i - n] = p.best_s[i] * p.row_scale[i] / p.best_tau;
        prices[i - n] = p.best_z[i] / (p.row_scale[i] * p.best_tau);
    }
    free(memory);
    free(whole_numbers);
    return ended;
}
