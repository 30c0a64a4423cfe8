/* Plans that climb backwards and the hand-out of `ef`, number by number: `backward.py` and `hand_out.py` in C.
 *
 * With every level that is given out the next level of every other job is planned anew, some seventy pieces each.
 * Steps are taken in the same order as there, so that both end at the same bits.  Called by `climb.py`.
 */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const char built_of[] = BUILT_OF;

#define NEARLY 1e-9

enum { DONE, NO_MEMORY, NOT_ENOUGH };

typedef struct {
    double at;
    int64_t gpus;
} Step;

typedef struct {
    Step *steps;
    int64_t count, room;
} Steps;

typedef struct {
    Steps use;
    double end, done;
} Plan;

typedef struct {
    const int64_t *levels; /* the first is 0 */
    const double *speeds;
    int64_t top; /* place of the largest level */
    double work, due;
    int64_t gpus;
    Plan plan, raised;
    int is_raised;
    double key;
} Job;

typedef struct {
    int64_t gpus;
    double now, slot;
    Job *jobs;
    int64_t count, *order;
    Steps free, without, spare;
    /* The pieces of the free curve that a job sees. */
    double *starts, *lasts;
    int64_t *fits, pieces, room;
    int failed;
} Climb;

static void push(Climb *all, Steps *to, double at, int64_t gpus)
{
    if (to->count == to->room) {
        int64_t room = to->room ? 2 * to->room : 16;
        Step *steps = realloc(to->steps, (size_t)room * sizeof *steps);
        if (!steps) {
            all->failed = NO_MEMORY;
            return;
        }
        to->steps = steps;
        to->room = room;
    }
    to->steps[to->count++] = (Step){at, gpus};
}

/* Place of the largest level up to `gpus`. */
static int64_t place_of(const Job *job, int64_t gpus)
{
    int64_t place = job->top;
    while (place && job->levels[place] > gpus)
        place--;
    return place;
}

static int64_t next_level(const Job *job)
{
    int64_t place = place_of(job, job->gpus);
    return place < job->top ? job->levels[place + 1] : job->gpus;
}

static double slots(const Climb *all, double seconds)
{
    return ceil(seconds / all->slot - NEARLY) * all->slot;
}

static double slot_of(const Climb *all, double moment)
{
    return all->now + slots(all, moment - all->now);
}

static double gpu_seconds(const Plan *plan)
{
    double total = 0.0;
    const Step *steps = plan->use.steps;
    for (int64_t i = 0; i < plan->use.count; i++) {
        double end = i + 1 < plan->use.count ? steps[i + 1].at : plan->end;
        total += (double)steps[i].gpus * (end - steps[i].at);
    }
    return total;
}

/* The free curve, to its first step from `until` on, once `plan` is taken from it (-1), or given back (1). */
static void change(Climb *all, Steps *to, const Steps *free, const Plan *plan, int64_t sign, double until)
{
    const Step *has = free->steps, *use = plan->use.steps;
    int64_t count = free->count, planned = plan->use.count, here = 0, there = 0;
    int64_t left = has[count - 1].gpus, used = 0, last = -1;
    int holds = 1;
    to->count = 0;
    for (;;) {
        double at = INFINITY;
        if (here < count)
            at = has[here].at;
        if (there < planned && use[there].at < at)
            at = use[there].at;
        if (holds && plan->end < at)
            at = plan->end;
        if (at == INFINITY || all->failed)
            return;
        while (here < count && has[here].at <= at)
            left = has[here++].gpus;
        while (there < planned && use[there].at <= at)
            used = use[there++].gpus;
        if (plan->end <= at) {
            holds = 0;
            used = 0;
            there = planned;
        }
        int64_t now = left + sign * used;
        if (!to->count || now != last) {
            push(all, to, at, now);
            last = now;
            if (at >= until)
                return;
        }
    }
}

static void cut(Climb *all, const Job *job, const Steps *free, double begin, double due)
{
    if (free->count > all->room) {
        size_t room = (size_t)(2 * free->count);
        double *starts = realloc(all->starts, room * sizeof *starts);
        if (starts)
            all->starts = starts;
        double *lasts = realloc(all->lasts, room * sizeof *lasts);
        if (lasts)
            all->lasts = lasts;
        int64_t *fits = realloc(all->fits, room * sizeof *fits);
        if (fits)
            all->fits = fits;
        all->pieces = 0;
        if (!starts || !lasts || !fits) {
            all->failed = NO_MEMORY;
            return;
        }
        all->room = (int64_t)room;
    }
    int64_t pieces = 0;
    for (int64_t place = 0; place < free->count; place++) {
        double at = free->steps[place].at;
        if (at < begin)
            continue;
        if (at >= due)
            break;
        double end = place + 1 < free->count ? free->steps[place + 1].at : due;
        all->starts[pieces] = at;
        all->lasts[pieces] = (end < due ? end : job->due) - at;
        all->fits[pieces++] = place_of(job, free->steps[place].gpus);
    }
    all->pieces = pieces;
}

/* The last piece from which on `level` is enough for what is `left`; -1 if it is not. */
static int64_t turn_of(const Climb *all, const Job *job, int64_t level, double left)
{
    double done = 0.0;
    for (int64_t place = all->pieces - 1; place >= 0; place--) {
        int64_t own = all->fits[place] < level ? all->fits[place] : level;
        done += all->lasts[place] * job->speeds[own];
        if (own && done >= left)
            return place;
    }
    return -1;
}

static void forward(Climb *all, const Job *job, double left, int64_t level, int64_t turn, Plan *plan)
{
    Steps *use = &plan->use;
    int64_t last = all->pieces - 1;
    for (int64_t place = 0; place <= last; place++) {
        double at = all->starts[place];
        int64_t most = place >= turn ? level : level - 1;
        int64_t own = all->fits[place] < most ? all->fits[place] : most;
        if (!use->count || use->steps[use->count - 1].gpus != job->levels[own])
            push(all, use, at, job->levels[own]);
        double done = all->lasts[place] * job->speeds[own];
        if (own && place >= turn && (done >= left || place == last)) {
            double needed = ceil((left > NEARLY ? left : NEARLY) / job->speeds[own] - NEARLY);
            if (place < last)
                push(all, use, all->starts[place + 1], 0);
            plan->end = at + slots(all, needed);
            plan->done = at + needed;
            return;
        }
        left -= done;
    }
    all->failed = NOT_ENOUGH;
}

static void ended(const Climb *all, double since, double left, double rate, Plan *plan)
{
    Steps *use = &plan->use;
    int64_t kept = 0;
    for (int64_t i = 0; i < use->count; i++)
        if (!i || use->steps[kept - 1].gpus != use->steps[i].gpus)
            use->steps[kept++] = use->steps[i];
    use->count = kept;
    plan->done = ceil(since + left / rate - NEARLY);
    plan->end = all->now + slots(all, plan->done - all->now);
}

static void late(
    Climb *all, const Job *job, double left, const Steps *free, double since, int64_t first, Plan *plan)
{
    int64_t has = 0;
    for (int64_t i = 0; i < free->count; i++) {
        double at = free->steps[i].at;
        if (at <= since) {
            has = free->steps[i].gpus;
            continue;
        }
        int64_t own = place_of(job, has);
        push(all, &plan->use, since, job->levels[own]);
        if (own && (at - since) * job->speeds[own] >= left) {
            ended(all, since, left, job->speeds[own], plan);
            return;
        }
        left -= (at - since) * job->speeds[own];
        since = at;
        has = free->steps[i].gpus;
    }
    int64_t gpus = first >= 0 ? first : job->levels[place_of(job, all->gpus)];
    push(all, &plan->use, since, gpus);
    ended(all, since, left, job->speeds[place_of(job, gpus)], plan);
}

/* What `job` is given of `free`; with `first` from 0 on, so many GPUs until the next step of it or the end. */
static void make_plan(Climb *all, const Job *job, const Steps *free, int64_t first, Plan *plan)
{
    double left = job->work, due = slot_of(all, job->due), begin = all->now;
    plan->use.count = 0;
    if (first >= 0) {
        double speed = job->speeds[place_of(job, first)], until = due;
        for (int64_t i = 0; i < free->count; i++)
            if (free->steps[i].at > all->now) {
                until = free->steps[i].at;
                break;
            }
        plan->done = ceil(all->now + left / speed - NEARLY);
        plan->end = all->now + slots(all, plan->done - all->now);
        push(all, &plan->use, all->now, first);
        if (until >= plan->end && job->due >= plan->done)
            return;
        left -= ((until == due ? job->due : until) - all->now) * speed;
        begin = until;
    }
    cut(all, job, free, begin, due);
    int64_t top = place_of(job, all->gpus);
    for (int64_t level = 1; level <= top; level++) {
        int64_t turn = turn_of(all, job, level, left);
        if (turn >= 0) {
            forward(all, job, left, level, turn, plan);
            return;
        }
    }
    for (int64_t place = 0; place < all->pieces; place++) {
        int64_t own = all->fits[place] < top ? all->fits[place] : top;
        push(all, &plan->use, all->starts[place], job->levels[own]);
        left -= all->lasts[place] * job->speeds[own];
    }
    late(all, job, left > NEARLY ? left : NEARLY, free, due > begin ? due : begin, first, plan);
}

/* The plan of `job` on its next level; what is free after its deadline matters if it is late only. */
static void raise_plan(Climb *all, Job *job)
{
    int64_t level = next_level(job);
    change(all, &all->without, &all->free, &job->plan, 1, slot_of(all, job->due));
    make_plan(all, job, &all->without, level, &job->raised);
    if (job->raised.done > job->due) {
        change(all, &all->without, &all->free, &job->plan, 1, INFINITY);
        make_plan(all, job, &all->without, level, &job->raised);
    }
    job->is_raised = 1;
}

static int fits(const Job *job, int64_t left)
{
    int64_t more = next_level(job) - job->gpus;
    return 0 < more && more <= left;
}

/* GPU-seconds that the next level adds for each GPU of it; who has nothing comes first. */
static void set_key(Climb *all, Job *job, int64_t left)
{
    job->is_raised = 0;
    if (!fits(job, left)) {
        job->key = -INFINITY;
        return;
    }
    if (!job->gpus) {
        job->key = INFINITY;
        return;
    }
    raise_plan(all, job);
    job->key = (gpu_seconds(&job->raised) - gpu_seconds(&job->plan)) / (double)(next_level(job) - job->gpus);
}

/* The largest key first; equal ones stay as they stood. */
static void sort_by_key(Climb *all)
{
    for (int64_t i = 1; i < all->count; i++) {
        int64_t own = all->order[i], j = i;
        while (j && all->jobs[all->order[j - 1]].key < all->jobs[own].key) {
            all->order[j] = all->order[j - 1];
            j--;
        }
        all->order[j] = own;
    }
}

static void take(Climb *all, Job *job)
{
    change(all, &all->without, &all->free, &job->plan, 1, INFINITY);
    change(all, &all->spare, &all->without, &job->raised, -1, INFINITY);
    Steps curve = all->free;
    all->free = all->spare;
    all->spare = curve;
    Plan before = job->plan;
    job->gpus = next_level(job);
    job->plan = job->raised;
    job->raised = before;
}

static int64_t hand_out(Climb *all, int64_t *raised, double *raised_end)
{
    int64_t left = all->gpus, steps = 0;
    for (int64_t i = 0; i < all->count; i++)
        left -= all->jobs[i].gpus;
    if (!left)
        return 0;
    for (int64_t i = 0; i < all->count; i++)
        set_key(all, &all->jobs[i], left);
    sort_by_key(all);
    while (left > 0 && !all->failed) {
        int64_t i = 0;
        while (i < all->count && !fits(&all->jobs[all->order[i]], left))
            i++;
        if (i == all->count)
            break;
        Job *job = &all->jobs[all->order[i]];
        left -= next_level(job) - job->gpus;
        if (!job->is_raised)
            raise_plan(all, job);
        take(all, job);
        raised[steps] = all->order[i];
        raised_end[steps++] = job->plan.end;
        for (int64_t k = 0; k < all->count; k++)
            if (next_level(&all->jobs[k]) > all->jobs[k].gpus)
                set_key(all, &all->jobs[k], left);
        sort_by_key(all);
    }
    return steps;
}

static void plan_all(Climb *all)
{
    push(all, &all->free, all->now, all->gpus);
    for (int64_t i = 0; i < all->count && !all->failed; i++) {
        Job *job = &all->jobs[i];
        make_plan(all, job, &all->free, -1, &job->plan);
        job->gpus = job->plan.use.steps[0].gpus;
        change(all, &all->spare, &all->free, &job->plan, -1, INFINITY);
        Steps curve = all->free;
        all->free = all->spare;
        all->spare = curve;
    }
}

/* Plans the jobs, which come by deadline, and if `gives` hands out what is left.
 *
 * `table` is the first entry of each job in `levels` and `speeds`, `tops` the place of its largest level there.
 * Out: by job its GPUs now, when it ends, when its plan changes next and when its work is done; before anything was
 * handed out, its GPUs, when it ends, is done and first has some; the order that the last step left; and of each step
 * the job that was raised, and when it ends since.  Returns an error, or 0.  The number in its name changes with its arguments, so that a
 * library built of other sources is left alone.
 */
int climb(
    int64_t count, const int64_t *table, const int64_t *tops, const int64_t *levels, const double *speeds,
    const double *work, const double *due, int64_t gpus, double now, double slot, int gives, int64_t *has,
    int64_t *first_has, int64_t *order, int64_t *raised, int64_t *steps, double *end, double *changes,
    double *first_end, double *first_done, double *begins, double *done, double *raised_end)
{
    Climb all = {.gpus = gpus, .now = now, .slot = slot, .count = count, .order = order};
    *steps = 0;
    all.jobs = calloc((size_t)(count ? count : 1), sizeof *all.jobs);
    if (!all.jobs)
        return NO_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        Job *job = &all.jobs[i];
        job->levels = levels + table[i];
        job->speeds = speeds + table[i];
        job->top = tops[i];
        job->work = work[i];
        job->due = due[i];
        order[i] = i;
    }
    plan_all(&all);
    for (int64_t i = 0; i < count && !all.failed; i++) {
        const Plan *plan = &all.jobs[i].plan;
        int64_t place = 0;
        while (place < plan->use.count && !plan->use.steps[place].gpus)
            place++;
        first_has[i] = all.jobs[i].gpus;
        first_end[i] = plan->end;
        first_done[i] = plan->done;
        begins[i] = place < plan->use.count ? plan->use.steps[place].at : INFINITY;
    }
    if (gives && !all.failed)
        *steps = hand_out(&all, raised, raised_end);
    for (int64_t i = 0; i < count; i++) {
        Job *job = &all.jobs[i];
        has[i] = job->gpus;
        end[i] = job->plan.end;
        done[i] = job->plan.done;
        changes[i] = job->plan.use.count > 1 ? job->plan.use.steps[1].at : INFINITY;
        free(job->plan.use.steps);
        free(job->raised.use.steps);
    }
    free(all.free.steps);
    free(all.without.steps);
    free(all.spare.steps);
    free(all.starts);
    free(all.lasts);
    free(all.fits);
    free(all.jobs);
    return all.failed;
}
