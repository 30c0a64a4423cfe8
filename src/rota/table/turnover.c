/* What is noted about jobs of which some stop and others begin at one moment: `turnover.py` in C.
 *
 * Each number comes of the same operations in the same order as there, so that both end at the same bits.
 */

#include <stdint.h>

const char built_of[] = BUILT_OF;

/* Columns of `State` and of `Progress`, in the order of `COLUMNS` of their modules. */

typedef struct {
    int8_t *phase;
    double *first_start, *since, *run, *service, *rate, *placed, *adjusted;
    int64_t *starts, *moves, *preemptions, *failures;
} State;

typedef struct {
    double *base, *rate, *since;
} Progress;

/* `rows` stop at `now` and wait (phase `pending`); `held_since` is told of each. */
void stop_rows(const State *state, const int64_t *rows, int64_t count, int64_t pending, double now,
               double *held_since)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t row = rows[i];
        double since = state->since[row], adjusted = state->adjusted[row], elapsed = now - since;
        held_since[i] = since >= adjusted ? since : adjusted;
        state->run[row] += elapsed;
        state->service[row] += state->rate[row] * elapsed;
        state->rate[row] = 0.0;
        state->preemptions[row]++;
        state->phase[row] = (int8_t)pending;
    }
}

/* `rows` begin at `now` (phase `running`), each on so many whole devices. */
void begin_rows(const State *state, const int64_t *rows, const double *devices, int64_t count, int64_t running,
                double now)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t row = rows[i];
        if (++state->starts[row] == 1)
            state->first_start[row] = now;
        else
            state->moves[row]++;
        state->phase[row] = (int8_t)running;
        state->placed[row] = state->since[row] = now;
        state->rate[row] = devices[i];
    }
}

/* `rows` stand still from `now` on. */
void stand_still(const Progress *progress, const int64_t *rows, int64_t count, double now)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t row = rows[i];
        double elapsed = now - progress->since[row];
        if (elapsed > 0.0)
            progress->base[row] += progress->rate[row] * elapsed;
        progress->rate[row] = 0.0;
    }
}

/* `rows` work at `rates` from `now` on, whether they stood still before or not. */
void work_on(const Progress *progress, const int64_t *rows, const double *rates, int64_t count, double now)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t row = rows[i];
        double before = progress->rate[row], elapsed = now - progress->since[row];
        if (before != 0.0 && elapsed > 0.0)
            progress->base[row] += before * elapsed;
        progress->rate[row] = rates[i];
        progress->since[row] = now;
    }
}
