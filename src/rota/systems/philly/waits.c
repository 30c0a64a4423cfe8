/* How long a wait was due to each reason: `Delays._seconds` in C, step by step the same, to the same bits.
 *
 * A long queue waits through thousands of changes of reasons, which are looked at for every job that leaves it.
 * Called by `waits.py`.
 */

#include <math.h>
#include <stdint.h>

const char built_of[] = BUILT_OF;

/* Seconds since the latest opening of who waits for `span` seconds.  Multiples of a whole number are exact, and so
 * is what they leave; a quotient that was rounded up to the next whole number leaves less than nothing. */
static double phase_of(double span, double period, int is_whole)
{
    if (is_whole) {
        double phase = span - floor(span / period) * period;
        if (phase >= 0.0 && phase < period)
            return phase;
    }
    return fmod(span, period);
}

/* Place of the label that held at `moment`: the last change up to it. */
static int64_t last_until(const double *at, int64_t changes, double moment)
{
    int64_t low = 0, high = changes;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (at[middle] <= moment)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? low - 1 : 0;
}

/* Add what a wait from `since` to `now` was due to each label to `seconds`; `at` are the moments of the changes. */
void split_wait(const double *at, const int64_t *label, int64_t changes, double since, double now, double timeout,
                double period, double *seconds)
{
    int64_t place = last_until(at, changes, since), of = label[place];
    int is_whole = period == floor(period);
    double begin = since;
    while (++place < changes) {
        double end = at[place], phase = phase_of(end - since, period, is_whole);
        if (!(phase < timeout))
            end = end - phase + period;
        if (end > now)
            end = now;
        seconds[of] += end - begin;
        begin = end;
        of = label[place];
    }
    seconds[of] += now - begin;
}
