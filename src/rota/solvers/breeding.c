/* What a population of matrices needs between two draws of chance, number by number.
 *
 * A search among forty jobs is thousands of generations of small arrays, in which a call of NumPy costs more than
 * its arithmetic.  Here the same is done in loops: to the bit, since sums are of whole numbers and quotients
 * are taken as NumPy takes them.  States are [node, member, job].
 *
 * Called by `breeding.py`, which says what goes in and out.
 */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const char built_of[] = BUILT_OF;

typedef struct {
    int64_t nodes, jobs, most, most_nodes;
    const int16_t *limit; /* [job, GPUs]: the largest number that it can use and that is no more */
    const int16_t *room;  /* [node] */
    const uint8_t *pinned;
    const int8_t *base;   /* [node, job] */
    int16_t *held, *used; /* room to count in, [job] each, */
    uint8_t *differs;     /* and this */
} Rules;

static int8_t *cells(const Rules *rules, int8_t *states, int64_t members, int64_t node, int64_t member)
{
    return states + (node * members + member) * rules->jobs;
}

/* GPUs of a member on a node. */
static int16_t total(const int8_t *own, int64_t jobs)
{
    int16_t sum = 0;
    for (int64_t job = 0; job < jobs; job++)
        sum += own[job];
    return sum;
}

/* Jobs on several nodes of which this is one. */
static int16_t spread_on(const int8_t *restrict own, const int16_t *restrict used, int64_t jobs)
{
    int16_t spread = 0;
    for (int64_t job = 0; job < jobs; job++)
        spread += (own[job] > 0) & (used[job] > 1);
    return spread;
}

/* GPUs and nodes of each job of a member. */
static void count(const Rules *rules, int8_t *states, int64_t members, int64_t member)
{
    int16_t *restrict held = rules->held, *restrict used = rules->used;
    int64_t jobs = rules->jobs;
    memset(held, 0, jobs * sizeof *held);
    memset(used, 0, jobs * sizeof *used);
    for (int64_t node = 0; node < rules->nodes; node++) {
        const int8_t *restrict own = cells(rules, states, members, node, member);
        for (int64_t job = 0; job < jobs; job++) {
            held[job] += own[job];
            used[job] += own[job] > 0;
        }
    }
}

/* At most one job on several nodes uses a node: of more all but the first leave it, or with `everybody` all
 * jobs from the second of them on. */
void part(const Rules *rules, int8_t *states, int64_t members, int64_t everybody)
{
    for (int64_t member = 0; member < members; member++) {
        count(rules, states, members, member);
        for (int64_t node = 0; node < rules->nodes; node++) {
            int8_t *own = cells(rules, states, members, node, member);
            int64_t met = 0;
            if (spread_on(own, rules->used, rules->jobs) < 2)
                continue;
            for (int64_t job = 0; job < rules->jobs; job++) {
                int is_spread = own[job] > 0 && rules->used[job] > 1;
                met += is_spread;
                if (met > 1 && (everybody || is_spread) && !rules->pinned[job])
                    own[job] = 0;
            }
        }
    }
}

/* Marks in `over` [member, job] who has more than it can use, or is on too many nodes; how many these are. */
int64_t mark_over(const Rules *rules, int8_t *states, int64_t members, uint8_t *over)
{
    int64_t marked = 0;
    for (int64_t member = 0; member < members; member++) {
        count(rules, states, members, member);
        for (int64_t job = 0; job < rules->jobs; job++) {
            int held = rules->held[job], gpus = held < rules->most ? held : (int)rules->most;
            uint8_t is_over = held > rules->limit[job * (rules->most + 1) + gpus];
            is_over |= rules->used[job] > rules->most_nodes;
            is_over &= !rules->pinned[job];
            over[member * rules->jobs + job] = is_over;
            marked += is_over;
        }
    }
    return marked;
}

/* Those that are marked keep what comes first in `order` of nodes. */
void trim(const Rules *rules, int8_t *states, int64_t members, const uint8_t *over, const int64_t *order)
{
    int64_t between = members * rules->jobs;
    for (int64_t row = 0; row < between; row++) {
        if (!over[row])
            continue;
        int64_t sum = 0, used = 0, before = 0;
        for (int64_t place = 0; place < rules->nodes; place++) {
            int8_t *cell = states + order[place] * between + row;
            used += *cell > 0;
            if (used > rules->most_nodes)
                *cell = 0;
            sum += *cell;
        }
        int64_t gpus = sum < rules->most ? sum : rules->most;
        int64_t limit = rules->limit[row % rules->jobs * (rules->most + 1) + gpus];
        for (int64_t place = 0; place < rules->nodes; place++) {
            int8_t *cell = states + order[place] * between + row;
            int64_t left = limit > before ? limit - before : 0;
            before += *cell;
            if (*cell > left)
                *cell = (int8_t)left;
        }
    }
}

/* No node has more than all its GPUs: the last jobs get less. */
void fit(const Rules *rules, int8_t *states, int64_t members)
{
    for (int64_t node = 0; node < rules->nodes; node++)
        for (int64_t member = 0; member < members; member++) {
            int8_t *own = cells(rules, states, members, node, member);
            int left = rules->room[node];
            if (total(own, rules->jobs) <= left)
                continue;
            for (int64_t job = 0; job < rules->jobs; job++) {
                int kept = own[job] < left ? own[job] : left;
                left -= own[job];
                left = left > 0 ? left : 0;
                own[job] = (int8_t)kept;
            }
        }
}

/* Where in [job, kept or changed, one node or several, GPUs] each job of each member is. */
void places(const Rules *rules, int8_t *states, int64_t members, int64_t *place)
{
    int64_t sizes = rules->most + 1, jobs = rules->jobs;
    for (int64_t member = 0; member < members; member++) {
        int64_t *here = place + member * jobs;
        uint8_t *restrict differs = rules->differs;
        count(rules, states, members, member);
        memset(differs, 0, jobs);
        for (int64_t node = 0; node < rules->nodes; node++) {
            const int8_t *restrict own = cells(rules, states, members, node, member);
            const int8_t *restrict old = rules->base + node * jobs;
            for (int64_t job = 0; job < jobs; job++)
                differs[job] |= own[job] ^ old[job];
        }
        for (int64_t job = 0; job < jobs; job++) {
            int64_t gpus = rules->held[job] < rules->most ? rules->held[job] : rules->most;
            here[job] = (4 * job + 2 * !!differs[job] + (rules->used[job] > 1)) * sizes + gpus;
        }
    }
}

/* Where in [job, one node or several, GPUs] each job is, the GPUs of the nodes that a member uses, and its
 * number: the sum over entries of numbers of their node and job. */
void places_alone(const Rules *rules, int8_t *states, int64_t members, const double *node_print,
                  const double *job_print, int64_t *place, double *active, double *print)
{
    int64_t sizes = rules->most + 1;
    for (int64_t member = 0; member < members; member++) {
        int64_t *here = place + member * rules->jobs;
        count(rules, states, members, member);
        active[member] = print[member] = 0.0;
        for (int64_t node = 0; node < rules->nodes; node++) {
            const int8_t *own = cells(rules, states, members, node, member);
            double number = 0.0;
            if (!total(own, rules->jobs))
                continue;
            for (int64_t job = 0; job < rules->jobs; job++)
                number += own[job] * job_print[job];
            print[member] += node_print[node] * number;
            active[member] += rules->room[node];
        }
        for (int64_t job = 0; job < rules->jobs; job++) {
            int64_t gpus = rules->held[job] < rules->most ? rules->held[job] : rules->most;
            here[job] = (2 * job + (rules->used[job] > 1)) * sizes + gpus;
        }
    }
}

/* -- who goes on ---------------------------------------------------------------------------------- */

typedef struct {
    double first, second, print, gap;
    int64_t at, rank;
} Member;

typedef int Before(const Member *, const Member *);

static inline int by_print(const Member *one, const Member *other)
{
    return one->print < other->print;
}

static inline int by_values(const Member *one, const Member *other)
{
    return one->first > other->first || (one->first == other->first && one->second > other->second);
}

static inline int by_front(const Member *one, const Member *other)
{
    return one->rank < other->rank;
}

static inline int by_gap(const Member *one, const Member *other)
{
    return one->gap > other->gap;
}

static inline int by_place(const Member *one, const Member *other)
{
    return one->at < other->at;
}

/* Sorts n members, equals in the order in which they are; `room` is for as many. */
static inline __attribute__((always_inline)) void sort(Member *members, int64_t n, Member *room, Before *before)
{
    for (int64_t width = 1; width < n; width *= 2) {
        memcpy(room, members, n * sizeof *members);
        for (int64_t begin = 0; begin < n; begin += 2 * width) {
            int64_t middle = begin + width < n ? begin + width : n, end = middle + width < n ? middle + width : n;
            for (int64_t left = begin, right = middle, to = begin; to < end; to++) {
                int is_right = left == middle || (right < end && before(&room[right], &room[left]));
                members[to] = room[is_right ? right++ : left++];
            }
        }
    }
}

/* Without those that are what an earlier one is, and worth as much. */
static int64_t without_copies(Member *members, int64_t n, Member *room)
{
    int64_t kept = 0;
    Member earliest = {0};
    sort(members, n, room, by_print);
    for (int64_t i = 0; i < n; i++) {
        Member now = members[i];
        int is_same = i && now.print == earliest.print;
        if (!is_same)
            earliest = now;
        if (!is_same || now.first != earliest.first || now.second != earliest.second)
            members[kept++] = now;
    }
    sort(members, kept, room, by_place);
    return kept;
}

/* The front of each; `members` come by values, and `ends` is the least second value of each front so far. */
static void rank_all(Member *members, int64_t n, double *ends)
{
    int64_t fronts = 0, place = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!i || members[i].first != members[i - 1].first || members[i].second != members[i - 1].second) {
            int64_t low = 0, high = fronts;
            while (low < high) { /* the first front whose last member has less of the second value */
                int64_t middle = (low + high) / 2;
                if (members[i].second > ends[middle])
                    high = middle;
                else
                    low = middle + 1;
            }
            place = low;
            fronts += place == fronts;
            ends[place] = members[i].second;
        }
        members[i].rank = place;
    }
}

/* How far the neighbours of each are apart on one front, in parts of it. */
static void crowd(Member *front, int64_t n)
{
    double first = fabs(front[0].first - front[n - 1].first), second = fabs(front[0].second - front[n - 1].second);
    first = first == 0.0 ? 1.0 : first;
    second = second == 0.0 ? 1.0 : second;
    front[0].gap = front[n - 1].gap = INFINITY;
    for (int64_t i = 1; i + 1 < n; i++)
        front[i].gap = fabs(front[i + 1].first - front[i - 1].first) / first
            + fabs(front[i + 1].second - front[i - 1].second) / second;
}

/* The first fronts of n members with `values` [member, 2] and of the last of them who is farthest from others:
 * `many` at most, by front and values; how many there are, or -1 without memory. */
int64_t survivors(int64_t n, const double *values, const double *prints, int64_t many, int64_t *order, double *gaps)
{
    Member *members = malloc((n + 1) * sizeof *members), *room = malloc((n + 1) * sizeof *room);
    double *ends = malloc((n + 1) * sizeof *ends);
    int64_t kept = -1;
    if (members && room && ends) {
        for (int64_t i = 0; i < n; i++)
            members[i] = (Member){values[2 * i], values[2 * i + 1], prints[i], 0.0, i, 0};
        n = without_copies(members, n, room);
        sort(members, n, room, by_values);
        rank_all(members, n, ends);
        sort(members, n, room, by_front);
        kept = 0;
        for (int64_t begin = 0, end; begin < n && kept < many; begin = end) {
            for (end = begin; end < n && members[end].rank == members[begin].rank; end++)
                ;
            int64_t taken = end - begin < many - kept ? end - begin : many - kept;
            crowd(members + begin, end - begin);
            if (taken < end - begin) {
                sort(members + begin, end - begin, room, by_gap);
                sort(members + begin, taken, room, by_place);
                sort(members + begin, taken, room, by_values);
            }
            for (int64_t i = 0; i < taken; i++, kept++) {
                order[kept] = members[begin + i].at;
                gaps[kept] = members[begin + i].gap;
            }
        }
    }
    free(members);
    free(room);
    free(ends);
    return kept;
}
