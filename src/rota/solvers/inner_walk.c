/* The walk of `interior.py` for small programs, number by number.
 *
 * A dozen jobs make a program of some thirty rows: there a call of NumPy costs more than its arithmetic.  Here
 * the same steps are taken in loops.  Rows that many columns have in common (GPUs of a type) are eliminated
 * last, so that the factors of a program of n jobs have some n entries.
 *
 *     minimise c x  with  G x + s = h,  s >= 0,  G = [diag(bounds); A]        n columns and perhaps a free one, m rows
 *
 * Called by `inner_walk.py`, which says what goes in and out.
 */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE 1e-8
#define MOST_STEPS 100
#define LEAST_STEP 1e-6
#define LARGEST_STEP 0.999
#define BACK_OFF 0.99
#define LEAST_CENTRING 1e-4
#define SCALINGS 3
#define REGULARISATION 1e-11
#define NOTHING 1e-12 /* what rounding may leave of 0 */
#define LONG_ROW 8 /* rows with more entries are eliminated after those with fewer */

enum { OPTIMAL, INFEASIBLE, UNBOUNDED, NEAREST, NO_MEMORY };

typedef struct {
    int64_t n, m, columns, rows; /* columns with the free one; rows of G: n bounds, then m */
    const int64_t *starts, *of;  /* row i of A has the entries starts[i] up to starts[i + 1], in columns `of` */
    double *values, *free;    /* `free` is NULL if there is no free column */
    double *bounds, *c, *h, *column_scale, *row_scale;
    const double *copies; /* of the rows of G; NULL for one each */
    /* The envelope of A D A' in the order of elimination. */
    int64_t *order, *first, *at, size;
    /* The system of one step. */
    double *w2, *scale, *lower, *by_free, of_free, *side, *towards, *sum_x, *sum_z;
    int is_whole;
    double *whole, *both;
    int64_t *pivots;
    /* The iterate, and the nearest so far. */
    double *x, *s, *z, tau, kappa, *best_x, *best_s, *best_z, best_tau, nearest;
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
    for (int64_t j = 0; j < p->columns; j++)
        by_column[j] = j < p->n ? fabs(p->bounds[j]) : 0.0;
    for (int64_t i = 0; i < p->m; i++) {
        double largest = p->free ? fabs(p->free[i]) : 0.0;
        if (p->free)
            by_column[p->n] = larger(by_column[p->n], largest);
        for (int64_t e = p->starts[i]; e < p->starts[i + 1]; e++) {
            double size = fabs(p->values[e]);
            largest = larger(largest, size);
            by_column[p->of[e]] = larger(by_column[p->of[e]], size);
        }
        by_row[i] = root(largest);
    }
    for (int64_t j = 0; j < p->columns; j++) {
        by_column[j] = root(by_column[j]);
        p->column_scale[j] *= by_column[j];
        if (j < p->n)
            p->bounds[j] /= root(fabs(p->bounds[j])) * by_column[j];
    }
    for (int64_t i = 0; i < p->m; i++) {
        p->row_scale[i] *= by_row[i];
        if (p->free)
            p->free[i] /= by_row[i] * by_column[p->n];
        for (int64_t e = p->starts[i]; e < p->starts[i + 1]; e++)
            p->values[e] /= by_row[i] * by_column[p->of[e]];
    }
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
            p->free[i] *= larger(of_row, 1.0) * larger(of_row, 1.0) / of_row;
        p->h[i] *= of_row;
        p->row_scale[i] /= of_row; /* a copy's own s: divided by the root again */
    }
    for (int64_t j = 0; j < p->n; j++) {
        p->c[j] *= sqrt(p->copies[j]);
        p->column_scale[j] *= sqrt(p->copies[j]);
    }
}

/* -- the order of elimination -------------------------------------------------------------------- */

static int64_t least_column(const Walk *p, int64_t row)
{
    int64_t least = p->n;
    for (int64_t e = p->starts[row]; e < p->starts[row + 1]; e++)
        least = p->of[e] < least ? p->of[e] : least;
    return least;
}

static int comes_after(const Walk *p, int64_t one, int64_t other)
{
    int long_one = p->starts[one + 1] - p->starts[one] > LONG_ROW;
    int long_other = p->starts[other + 1] - p->starts[other] > LONG_ROW;
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
    p->size = 0;
    for (int64_t k = 0; k < p->m; k++) {
        p->first[k] = k;
        for (int64_t e = p->starts[p->order[k]]; e < p->starts[p->order[k] + 1]; e++)
            if (earliest[p->of[e]] < p->first[k])
                p->first[k] = earliest[p->of[e]];
        p->size += k - p->first[k];
        p->at[k] = p->size++;
    }
}

/* -- products ------------------------------------------------------------------------------------ */

/* y = G x */
static void of_x(const Walk *p, const double *x, double *y)
{
    for (int64_t j = 0; j < p->n; j++)
        y[j] = p->bounds[j] * x[j];
    for (int64_t i = 0; i < p->m; i++) {
        double total = p->free ? p->free[i] * x[p->n] : 0.0;
        for (int64_t e = p->starts[i]; e < p->starts[i + 1]; e++)
            total += p->values[e] * x[p->of[e]];
        y[p->n + i] = total;
    }
}

/* y = G' z */
static void of_z(const Walk *p, const double *z, double *y)
{
    for (int64_t j = 0; j < p->n; j++)
        y[j] = p->bounds[j] * z[j];
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t e = p->starts[i]; e < p->starts[i + 1]; e++)
            y[p->of[e]] += p->values[e] * z[p->n + i];
    if (p->free)
        y[p->n] = dot(p->m, p->free, z + p->n);
}

/* -- the system of each step --------------------------------------------------------------------- */

/* A D A' + W2 = L L' for the rows, bounds eliminated; 0 if rounding leaves it not positive. */
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
            double total = 0.0;
            for (int64_t e = p->starts[other]; e < p->starts[other + 1]; e++)
                total += p->values[e] * dense[p->of[e]];
            mine[j] = total;
        }
        for (int64_t e = p->starts[row]; e < p->starts[row + 1]; e++)
            dense[p->of[e]] = 0.0;
        double rest = mine[k] + p->w2[p->n + row] + REGULARISATION;
        for (int64_t j = p->first[k]; j < k; j++) {
            const double *theirs = p->lower + p->at[j] - j;
            int64_t from = p->first[k] > p->first[j] ? p->first[k] : p->first[j];
            double value = mine[j];
            for (int64_t i = from; i < j; i++)
                value -= mine[i] * theirs[i];
            mine[j] = value / theirs[j];
            rest -= mine[j] * mine[j];
        }
        if (!(rest > 0.0))
            return 0;
        mine[k] = sqrt(rest);
    }
    return 1;
}

/* L L' solution = sides */
static void solve_rows(const Walk *p, const double *sides, double *solution)
{
    double *y = p->side;
    for (int64_t k = 0; k < p->m; k++) {
        const double *mine = p->lower + p->at[k] - k;
        double total = sides[p->order[k]];
        for (int64_t i = p->first[k]; i < k; i++)
            total -= mine[i] * y[i];
        y[k] = total / mine[k];
    }
    for (int64_t k = p->m - 1; k >= 0; k--) {
        const double *mine = p->lower + p->at[k] - k;
        y[k] /= mine[k];
        for (int64_t i = p->first[k]; i < k; i++)
            y[i] -= mine[i] * y[k];
    }
    for (int64_t k = 0; k < p->m; k++)
        solution[p->order[k]] = y[k];
}

static void exchange(double *one, double *other, int64_t n)
{
    for (int64_t k = 0; k < n; k++) {
        double kept = one[k];
        one[k] = other[k];
        other[k] = kept;
    }
}

/* [0 G'; G -W2] = L U with the largest pivots; 0 if it is singular. */
static int factor_whole(Walk *p)
{
    int64_t n = p->columns, size = n + p->rows;
    double *a = p->whole;
    memset(a, 0, sizeof *a * size * size);
    for (int64_t j = 0; j < p->n; j++)
        a[(n + j) * size + j] = a[j * size + n + j] = p->bounds[j];
    for (int64_t i = 0; i < p->m; i++) {
        int64_t here = n + p->n + i;
        for (int64_t e = p->starts[i]; e < p->starts[i + 1]; e++)
            a[here * size + p->of[e]] = a[p->of[e] * size + here] = p->values[e];
        if (p->free)
            a[here * size + p->n] = a[p->n * size + here] = p->free[i];
    }
    for (int64_t i = 0; i < p->rows; i++)
        a[(n + i) * size + n + i] = -(p->w2[i] + REGULARISATION);
    for (int64_t k = 0; k < size; k++) {
        int64_t pivot = k;
        for (int64_t i = k + 1; i < size; i++)
            if (fabs(a[i * size + k]) > fabs(a[pivot * size + k]))
                pivot = i;
        p->pivots[k] = pivot;
        if (a[pivot * size + k] == 0.0)
            return 0;
        if (pivot != k)
            exchange(a + k * size, a + pivot * size, size);
        for (int64_t i = k + 1; i < size; i++) {
            double *row = a + i * size, by = row[k];
            if (by == 0.0)
                continue;
            by = row[k] = by / a[k * size + k];
            for (int64_t j = k + 1; j < size; j++)
                row[j] -= by * a[k * size + j];
        }
    }
    return 1;
}

static void solve_whole(Walk *p, const double *a, const double *b, double *x, double *z)
{
    int64_t n = p->columns, size = n + p->rows;
    double *y = p->both;
    memcpy(y, a, sizeof *y * n);
    memcpy(y + n, b, sizeof *y * p->rows);
    for (int64_t k = 0; k < size; k++)
        exchange(y + k, y + p->pivots[k], 1);
    for (int64_t k = 0; k < size; k++)
        y[k] -= dot(k, p->whole + k * size, y);
    for (int64_t k = size - 1; k >= 0; k--) {
        const double *row = p->whole + k * size;
        y[k] = (y[k] - dot(size - 1 - k, row + k + 1, y + k + 1)) / row[k];
    }
    memcpy(x, y, sizeof *y * n);
    memcpy(z, y + n, sizeof *y * p->rows);
}

/* Factors for the weights in w2; 0 if there are none. */
static int factor(Walk *p)
{
    for (int64_t j = 0; j < p->n; j++)
        p->scale[j] = (p->w2[j] + REGULARISATION) / (p->bounds[j] * p->bounds[j]);
    memset(p->towards, 0, sizeof *p->towards * p->columns);
    p->is_whole = !factor_rows(p);
    if (p->is_whole)
        return factor_whole(p);
    if (p->free) {
        solve_rows(p, p->free, p->by_free);
        p->of_free = dot(p->m, p->free, p->by_free);
    }
    return 1;
}

/* x = D (a - A' z) + b / bounds; what remains is of the size of the rows.  `x` and `z` are not `a` and `b`. */
static void solve_once(Walk *p, const double *a, const double *b, double *x, double *z)
{
    if (p->is_whole) {
        solve_whole(p, a, b, x, z);
        return;
    }
    double *of_rows = z + p->n, *towards = p->towards;
    for (int64_t j = 0; j < p->n; j++)
        towards[j] = p->scale[j] * a[j] + b[j] / p->bounds[j];
    for (int64_t i = 0; i < p->m; i++) {
        double total = -b[p->n + i];
        for (int64_t e = p->starts[i]; e < p->starts[i + 1]; e++)
            total += p->values[e] * towards[p->of[e]];
        of_rows[i] = total;
    }
    solve_rows(p, of_rows, of_rows);
    if (p->free) {
        x[p->n] = (a[p->n] - dot(p->m, p->free, of_rows)) / p->of_free;
        for (int64_t i = 0; i < p->m; i++)
            of_rows[i] += p->by_free[i] * x[p->n];
    }
    memcpy(x, a, sizeof *x * p->n);
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t e = p->starts[i]; e < p->starts[i + 1]; e++)
            x[p->of[e]] -= p->values[e] * of_rows[i];
    for (int64_t j = 0; j < p->n; j++) {
        z[j] = x[j] / p->bounds[j];
        x[j] = p->scale[j] * x[j] + b[j] / p->bounds[j];
    }
}

/* [x, z] for the sides [a, b], refined, which takes the regularisation out again.  a and b are overwritten. */
static void solve(Walk *p, double *a, double *b, double *x, double *z)
{
    solve_once(p, a, b, x, z);
    for (int refinement = 0; refinement < 1 + p->is_whole; refinement++) {
        double *more_x = p->sum_x, *more_z = p->sum_z;
        /* a and b become what is missed so far; each refinement takes away what the last one added. */
        const double *last_x = refinement ? more_x : x, *last_z = refinement ? more_z : z;
        double *of_x_now = p->both, *of_z_now = p->both + p->rows;
        of_x(p, last_x, of_x_now);
        of_z(p, last_z, of_z_now);
        for (int64_t j = 0; j < p->columns; j++)
            a[j] -= of_z_now[j];
        for (int64_t i = 0; i < p->rows; i++)
            b[i] += p->w2[i] * last_z[i] - of_x_now[i];
        solve_once(p, a, b, more_x, more_z);
        for (int64_t j = 0; j < p->columns; j++)
            x[j] += more_x[j];
        for (int64_t i = 0; i < p->rows; i++)
            z[i] += more_z[i];
    }
}

/* -- the walk ------------------------------------------------------------------------------------ */

/* All of it above 0, else moved until the least is 1, copy by copy. */
static void move_inside(const Walk *p, double *r)
{
    double least = INFINITY;
    for (int64_t i = 0; i < p->rows; i++) {
        double each = p->copies ? r[i] / sqrt(p->copies[i]) : r[i];
        least = each < least ? each : least;
    }
    if (least > NOTHING)
        return;
    for (int64_t i = 0; i < p->rows; i++)
        r[i] += (1.0 - least) * (p->copies ? sqrt(p->copies[i]) : 1.0);
}

/* The points that miss the equations least, moved inside; a and b are room. */
static int start(Walk *p, double *a, double *b)
{
    for (int64_t i = 0; i < p->rows; i++)
        p->w2[i] = 1.0;
    if (!factor(p))
        return 0;
    memset(a, 0, sizeof *a * p->columns);
    memset(b, 0, sizeof *b * p->n);
    memcpy(b + p->n, p->h, sizeof *b * p->m);
    solve(p, a, b, p->x, p->s);
    for (int64_t i = 0; i < p->rows; i++)
        p->s[i] = -p->s[i];
    for (int64_t j = 0; j < p->columns; j++)
        a[j] = -p->c[j];
    memset(b, 0, sizeof *b * p->rows);
    solve(p, a, b, p->miss_x, p->z);
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
    int64_t n = p->n;
    double tau = p->tau, *of_z_now = p->miss_x, *filled = p->miss_z;
    of_z(p, p->z, of_z_now);
    of_x(p, p->x, filled);
    for (int64_t i = 0; i < p->rows; i++)
        filled[i] += p->s[i];
    double of_z_norm = norm(p->columns, of_z_now), filled_norm = norm(p->rows, filled);
    for (int64_t j = 0; j < p->columns; j++)
        p->miss_x[j] = -(of_z_now[j] + tau * p->c[j]);
    for (int64_t i = 0; i < p->m; i++)
        p->miss_z[n + i] -= tau * p->h[i];
    double cost = dot(p->columns, p->c, p->x), bound = -dot(p->m, p->h, p->z + n);
    p->miss_tau = p->kappa + cost - bound;
    double of_h = larger(1.0, norm(p->m, p->h)), of_c = larger(1.0, norm(p->columns, p->c));
    double misses = larger(norm(p->rows, p->miss_z) / of_h, norm(p->columns, p->miss_x) / of_c) / tau;
    double gap = dot(p->rows, p->s, p->z) / larger(1.0, larger(-cost / tau, bound / tau));
    double miss = larger(misses, gap);
    if (miss < p->nearest)
        keep_nearest(p, miss);
    if (miss < TOLERANCE)
        return OPTIMAL;
    if (tau >= p->kappa)
        return NEAREST;
    double near_z = TOLERANCE * larger(1.0, norm(p->rows, p->z));
    double near_x = TOLERANCE * larger(1.0, norm(p->columns, p->x));
    if (bound > near_z && of_z_norm < near_z)
        return INFEASIBLE;
    return -cost > near_x && filled_norm < near_x ? UNBOUNDED : NEAREST;
}

/* How far one may go until something is 0. */
static double step_length(const Walk *p, const double *scaled, const double *ds, const double *dz, double tau,
                          double kappa)
{
    double steepest = larger(larger(-tau / p->tau, -kappa / p->kappa), 1e-13);
    for (int64_t i = 0; i < p->rows; i++)
        steepest = larger(steepest, larger(-ds[i] / scaled[i], -dz[i] / scaled[i]));
    double length = larger(1.0 / steepest, LEAST_STEP);
    return length < LARGEST_STEP ? length : LARGEST_STEP;
}

/* Room for one step. */
typedef struct {
    double *a, *b, *x1, *z1, *x2, *z2, *w, *scaled, *dz, *ds, *complement;
} Room;

/* One step: where Newton's method would go, then a corrected one that keeps away from the walls; 0 where
 * rounding leaves no direction. */
static int step(Walk *p, const Room *r)
{
    int64_t n = p->n, m = p->m, rows = p->rows, columns = p->columns;
    double copies = 0.0;
    for (int64_t i = 0; i < rows; i++) {
        p->w2[i] = p->s[i] / p->z[i];
        r->w[i] = sqrt(p->w2[i]);
        r->scaled[i] = r->w[i] * p->z[i];
        copies += p->copies ? p->copies[i] : 1.0;
    }
    double mu = (dot(rows, p->s, p->z) + p->kappa * p->tau) / (copies + 1.0);
    if (!factor(p))
        return 0;
    for (int64_t j = 0; j < columns; j++)
        r->a[j] = -p->c[j];
    memset(r->b, 0, sizeof *r->b * n);
    memcpy(r->b + n, p->h, sizeof *r->b * m);
    solve(p, r->a, r->b, r->x1, r->z1);
    memcpy(r->a, p->miss_x, sizeof *r->a * columns);
    for (int64_t i = 0; i < rows; i++)
        r->b[i] = p->s[i] - p->miss_z[i];
    solve(p, r->a, r->b, r->x2, r->z2);
    double denominator = p->kappa / p->tau - (dot(columns, p->c, r->x1) + dot(m, p->h, r->z1 + n));
    /* Straight to complementarity 0, ... */
    double ahead = dot(columns, p->c, r->x2) + dot(m, p->h, r->z2 + n);
    double tau = (p->miss_tau - p->kappa + ahead) / denominator;
    for (int64_t i = 0; i < rows; i++) {
        r->dz[i] = r->w[i] * (r->z2[i] + tau * r->z1[i]);
        r->ds[i] = -(r->scaled[i] + r->dz[i]);
    }
    double kappa = -p->kappa * (p->tau + tau) / p->tau;
    double length = step_length(p, r->scaled, r->ds, r->dz, tau, kappa);
    /* ... then what that misses by corrected, towards the middle. */
    double centring = (1.0 - length) * (1.0 - length) * (1.0 - length);
    centring = larger(centring, LEAST_CENTRING) < 1.0 ? larger(centring, LEAST_CENTRING) : 1.0;
    double rest = 1.0 - centring, target = centring * mu;
    for (int64_t i = 0; i < rows; i++) {
        double aim = p->copies ? target * p->copies[i] : target;
        r->complement[i] = r->scaled[i] + (r->ds[i] * r->dz[i] - aim) / r->scaled[i];
        r->b[i] = r->w[i] * r->complement[i] - rest * p->miss_z[i];
    }
    for (int64_t j = 0; j < columns; j++)
        r->a[j] = rest * p->miss_x[j];
    double of_kappa = p->kappa * p->tau + kappa * tau - target;
    solve(p, r->a, r->b, r->x2, r->z2);
    ahead = dot(columns, p->c, r->x2) + dot(m, p->h, r->z2 + n);
    tau = (rest * p->miss_tau - of_kappa / p->tau + ahead) / denominator;
    for (int64_t i = 0; i < rows; i++) {
        r->dz[i] = r->w[i] * (r->z2[i] + tau * r->z1[i]);
        r->ds[i] = -(r->complement[i] + r->dz[i]);
    }
    kappa = -(of_kappa + p->kappa * tau) / p->tau;
    length = BACK_OFF * step_length(p, r->scaled, r->ds, r->dz, tau, kappa);
    int sound = 1;
    for (int64_t j = 0; j < columns; j++) {
        p->x[j] += length * (r->x2[j] + tau * r->x1[j]);
        sound &= isfinite(p->x[j]) != 0;
    }
    for (int64_t i = 0; i < rows; i++) {
        p->s[i] += length * r->w[i] * r->ds[i];
        p->z[i] += length * r->dz[i] / r->w[i];
        sound &= p->s[i] > 0.0 && p->z[i] > 0.0;
    }
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
    for (int64_t j = 0; j < p->n; j++)
        p->bounds[j] = -1.0;
    for (int64_t i = 0; i < p->m; i++)
        p->row_scale[i] = 1.0;
    for (int k = 0; k < SCALINGS; k++)
        scale_once(p, by_row, by_column);
    for (int64_t j = 0; j < p->columns; j++)
        p->c[j] = -(j < p->n ? costs[j] : of_free) / p->column_scale[j];
    for (int64_t i = 0; i < p->m; i++)
        p->h[i] = limits[i] / p->row_scale[i];
    if (p->copies)
        account_for_copies(p);
    plan(p, place, earliest);
}

static int walk(Walk *p, const Room *room)
{
    p->nearest = INFINITY;
    if (!start(p, room->a, room->b))
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

/* In: the program of `InnerProgram`.  Out: the point (columns), what is left of the limits and their prices
 * (m each), and by how much the point misses equations or the optimum.  Says how it ended. */
int inner_walk(int64_t n, int64_t m, const int64_t *starts, const int64_t *of, const double *values, const double *costs,
               const double *limits, const double *free_column, double of_free, const double *copies, double *x,
               double *slack, double *prices, double *miss)
{
    int64_t entries = starts[m], columns = n + (free_column != NULL), rows = n + m, both = columns + rows;
    size_t numbers = entries + 16 * columns + 24 * rows + 2 * both + (size_t)m * (m + 1) / 2 + (size_t)both * both;
    double *next = calloc(numbers, sizeof *next);
    int64_t *whole_numbers = calloc(5 * m + n + both + 1, sizeof *whole_numbers);
    if (!next || !whole_numbers) {
        free(next);
        free(whole_numbers);
        return NO_MEMORY;
    }
    double *memory = next;
#define TAKE(count) (next += (count), next - (count))
    Walk p = {.n = n, .m = m, .columns = columns, .rows = rows, .starts = starts, .of = of, .copies = copies};
    p.values = memcpy(TAKE(entries), values, sizeof *values * entries);
    p.free = free_column ? memcpy(TAKE(m), free_column, sizeof *free_column * m) : NULL;
    p.bounds = TAKE(n), p.c = TAKE(columns), p.h = TAKE(m), p.column_scale = TAKE(columns), p.row_scale = TAKE(m);
    p.w2 = TAKE(rows), p.scale = TAKE(n), p.lower = TAKE(m * (m + 1) / 2), p.by_free = TAKE(m), p.side = TAKE(m);
    p.towards = TAKE(columns), p.sum_x = TAKE(columns), p.sum_z = TAKE(rows), p.both = TAKE(2 * both);
    p.x = TAKE(columns), p.s = TAKE(rows), p.z = TAKE(rows);
    p.best_x = TAKE(columns), p.best_s = TAKE(rows), p.best_z = TAKE(rows);
    p.miss_x = TAKE(columns), p.miss_z = TAKE(rows);
    Room room = {TAKE(columns), TAKE(rows), TAKE(columns), TAKE(rows), TAKE(columns), TAKE(rows),
                 TAKE(rows),    TAKE(rows), TAKE(rows),    TAKE(rows), TAKE(rows)};
    double *by_row = TAKE(m), *by_column = TAKE(columns);
    p.whole = TAKE((size_t)both * both);
#undef TAKE
    p.order = whole_numbers, p.first = p.order + m, p.at = p.first + m, p.pivots = p.at + m;
    int64_t *place = p.pivots + both, *earliest = place + m;
    prepare(&p, costs, limits, of_free, by_row, by_column, place, earliest);
    int ended = walk(&p, &room);
    *miss = p.nearest;
    for (int64_t j = 0; j < columns; j++)
        x[j] = p.best_x[j] / (p.best_tau * p.column_scale[j]);
    for (int64_t i = 0; i < m; i++) {
        slack[i] = p.best_s[n + i] * p.row_scale[i] / p.best_tau;
        prices[i] = p.best_z[n + i] / (p.row_scale[i] * p.best_tau);
    }
    free(memory);
    free(whole_numbers);
    return ended;
}
