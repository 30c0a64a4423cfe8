/* The tournament of AFS: each step to the winner of a walk from job to job.
 *
 * Jobs are those that hold something and can have more, in their order.  A walk goes over all that stand behind
 * the last winner, for each GPU of a cluster; here that is a loop over three columns.  It ends at the same steps
 * as the walk in NumPy (`one_by_one.py`), since each quotient is taken of the same numbers in the same order.
 *
 * Called by `tournament.py`, which says what goes in and out.
 */

#include <math.h>
#include <stdint.h>

const char built_of[] = BUILT_OF;

typedef struct {
    int64_t jobs;
    const int64_t *first, *top; /* [job]: where its numbers of GPUs begin, and how many it has */
    const int64_t *counts;      /* numbers of GPUs, ascending, */
    const double *rates;        /* and the speed on each */
    const double *work;         /* [job]: what is left; or nothing, if `end` stands as it is */
    int64_t *level;             /* [job]: how many of its numbers it has taken */
    double *end;                /* [job]: when it ends, or what stands for that */
    double *now, *later;        /* [job]: what a step gains, by the present speed and by the one it leads to */
    int64_t *best;              /* who was the best so far, in the order of the walk */
    int64_t bests;
    int64_t largest;            /* no step of a job that is in takes more */
} Tournament;

static int64_t step_of(const Tournament *all, int64_t job)
{
    const int64_t *counts = all->counts + all->first[job];
    int64_t level = all->level[job];
    return level < all->top[job] ? counts[level] - counts[level - 1] : 0;
}

static void put_out(Tournament *all, int64_t job)
{
    all->now[job] = all->later[job] = -INFINITY;
}

/* Work out anew when `job` ends and what it gains; it is out if it can use none of `gpus`. */
static void weigh(Tournament *all, int64_t job, int64_t gpus)
{
    int64_t step = step_of(all, job);
    const double *rates = all->rates + all->first[job];
    int64_t level = all->level[job];
    if (step <= 0 || step > gpus || !(rates[level] > rates[level - 1])) {
        put_out(all, job);
        return;
    }
    double slow = rates[level - 1], fast = rates[level];
    all->now[job] = (fast - slow) / slow / step;
    all->later[job] = (fast - slow) / fast / step;
    if (all->work)
        all->end[job] = all->work[job] / slow;
    if (step > all->largest)
        all->largest = step;
}

/* Take those out whose step is more than `gpus`; the first of them who was the best once, or `jobs`. */
static int64_t retire(Tournament *all, int64_t gpus)
{
    int64_t cut = all->jobs;
    if (gpus >= all->largest)
        return cut;
    all->largest = 0;
    for (int64_t job = 0, place = 0; job < all->jobs; job++) {
        while (place < all->bests && all->best[place] < job)
            place++;
        if (!(all->now[job] > -INFINITY))
            continue;
        int64_t step = step_of(all, job);
        if (step <= gpus) {
            if (step > all->largest)
                all->largest = step;
            continue;
        }
        put_out(all, job);
        if (place < all->bests && all->best[place] == job) {
            all->bests = place;
            cut = job;
        }
    }
    return cut;
}

/* Go on from `job` with the best so far, up to the last job. */
static void walk(Tournament *all, int64_t job)
{
    const double *end = all->end, *now = all->now, *later = all->later;
    if (!all->bests) {
        while (job < all->jobs && !(now[job] > -INFINITY))
            job++;
        if (job == all->jobs)
            return;
        all->best[all->bests++] = job++;
    }
    int64_t best = all->best[all->bests - 1];
    double best_end = end[best], best_now = now[best], best_later = later[best];
    for (; job < all->jobs; job++) {
        /* Whoever ends first is weighed against its present speed, the other one against its next. */
        if (end[job] < best_end ? now[job] > best_later : later[job] >= best_now) {
            all->best[all->bests++] = job;
            best_end = end[job], best_now = now[job], best_later = later[job];
        }
    }
}

/* Hand out `gpus`; `order` is told who is given each step.  How many steps there were. */
int64_t hand_out(int64_t jobs, int64_t gpus, const int64_t *first, const int64_t *top, const int64_t *counts,
                 const double *rates, const double *work, int64_t *level, double *end, double *now,
                 double *later, int64_t *best, int64_t *order)
{
    Tournament all = {jobs, first, top, counts, rates, work, level, end, now, later, best, 0, 0};
    int64_t steps = 0;
    for (int64_t job = 0; job < jobs; job++)
        weigh(&all, job, gpus);
    walk(&all, 0);
    while (all.bests && gpus) {
        int64_t winner = all.best[--all.bests];
        gpus -= step_of(&all, winner);
        level[winner]++;
        order[steps++] = winner;
        weigh(&all, winner, gpus);
        int64_t cut = retire(&all, gpus);
        walk(&all, cut < winner ? cut : winner);
    }
    return steps;
}
