/* The limit to compare with: Tsitouras 5(4) in GCC's vector extensions, one member a lane, lanes refilled from a queue.

   Each step is the arithmetic and nothing else: the stages are unrolled, a vector holds WIDTH lanes, GROUPS vectors step together
   since the stages of one alone wait for each other, and a member that ends gives its lane to the next one at once. The controller is h <- h clip(0.9 error^(-1/5), 0.2, 10), after accepted and rejected
   steps alike.

   ensemble PROBLEM TOLERANCE END FIRST_STEP SAMPLES GIVEN FOUND
   reads from GIVEN, as doubles: members, states, parameters, y0 (member, state), p (member, parameter); writes to FOUND:
   y (member, state), accepted (member), rejected (member); prints the CPU seconds of each sample. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__AVX512F__)
#define WIDTH 8
#elif defined(__AVX__)
#define WIDTH 4
#else
#define WIDTH 2
#endif
#ifndef GROUPS
#define GROUPS 2
#endif

typedef double vec __attribute__((vector_size(8 * WIDTH)));
typedef long mask __attribute__((vector_size(8 * WIDTH)));

#define INLINE static inline __attribute__((always_inline))
#define FAR 1e300 /* the end of a lane without a member, which so never ends */

enum { MAX_STATES = 3, MAX_PARAMETERS = 4 };
typedef enum { LORENZ, LOTKA_VOLTERRA, VAN_DER_POL } problem;

typedef struct {
    long members;
    double end, first_step, tolerance;
    const double *y0, *p;
    double *y, *accepted, *rejected;
} ensemble;

INLINE vec fill(double x) { return x - (vec){0}; }
INLINE vec choose(mask m, vec a, vec b) { return (vec)((m & (mask)a) | (~m & (mask)b)); }
INLINE vec least(vec a, vec b) { return choose(a < b, a, b); }
INLINE vec most(vec a, vec b) { return choose(a > b, a, b); }
INLINE vec size(vec a) { return (vec)((mask)a & 0x7fffffffffffffff); }

INLINE int any(mask m) {
    long found = 0;
    for (int i = 0; i < WIDTH; i++) found |= m[i];
    return found != 0;
}

/* x^(-1/10) for positive x: the exponent field over -10 as a first guess (doubles, read as integers, are nearly logarithms;
   adding 2^52 turns small integers into doubles and back), then two steps of Halley's iteration: within 1e-6. */
INLINE vec inverse_tenth_root(vec x) {
    const mask magic = (mask)fill(0x1p52);
    const vec high = (vec)(((mask)x >> 32) | magic) - 0x1p52;
    const vec scaled = 1.1 * 1072693248.0 - 0.1 * high;
    vec root = (vec)(((mask)(scaled + 0x1p52) - magic) << 32);
    for (int i = 0; i < 2; i++) {
        const vec two = root * root, four = two * two;
        const vec rest = 1.0 - x * (four * four * two);
        root += root * rest * (0.1 + 0.055 * rest);
    }
    return root;
}

INLINE void field(problem which, const vec *y, const vec *p, vec *slope) {
    if (which == LORENZ) {
        slope[0] = 10.0 * (y[1] - y[0]);
        slope[1] = y[0] * (p[0] - y[2]) - y[1];
        slope[2] = y[0] * y[1] - (8.0 / 3.0) * y[2];
    } else if (which == LOTKA_VOLTERRA) {
        slope[0] = (p[0] - p[1] * y[1]) * y[0];
        slope[1] = (p[2] * y[0] - p[3]) * y[1];
    } else {
        slope[0] = y[1];
        slope[1] = p[0] * (1.0 - y[0] * y[0]) * y[1] - y[0];
    }
}

#define A2(n) y[g][n] + h[g] * 0.161 * k1[g][n]
#define A3(n) y[g][n] + h[g] * (-0.008480655492356989 * k1[g][n] + 0.335480655492357 * k2[g][n])
#define A4(n) y[g][n] + h[g] * (2.8971530571054935 * k1[g][n] - 6.359448489975075 * k2[g][n] + 4.3622954328695815 * k3[g][n])
#define A5(n) y[g][n] + h[g] * (5.325864828439257 * k1[g][n] - 11.748883564062828 * k2[g][n] + 7.4955393428898365 * k3[g][n] \
    - 0.09249506636175525 * k4[g][n])
#define A6(n) y[g][n] + h[g] * (5.86145544294642 * k1[g][n] - 12.92096931784711 * k2[g][n] + 8.159367898576159 * k3[g][n] \
    - 0.071584973281401 * k4[g][n] - 0.028269050394068383 * k5[g][n])
#define A7(n) y[g][n] + h[g] * (0.09646076681806523 * k1[g][n] + 0.01 * k2[g][n] + 0.4798896504144996 * k3[g][n] \
    + 1.379008574103742 * k4[g][n] - 3.290069515436081 * k5[g][n] + 2.324710524099774 * k6[g][n])
#define ERROR(n) h[g] * (0.0017800110522257773 * k1[g][n] + 0.0008164344596567463 * k2[g][n] - 0.007880878010261994 * k3[g][n] \
    + 0.1447110071732629 * k4[g][n] - 0.5823571654525552 * k5[g][n] + 0.45808210592918686 * k6[g][n] - 0.015151515151515152 * k7[g][n])
#define EACH_GROUP _Pragma("GCC unroll 8") for (int g = 0; g < GROUPS; g++)
#define EACH_STATE _Pragma("GCC unroll 8") for (int n = 0; n < states; n++)
#define STAGE(result, formula, slope)               \
    EACH_GROUP {                                    \
        EACH_STATE result[g][n] = formula(n);       \
        field(which, result[g], p[g], slope[g]);    \
    }

INLINE void solve(problem which, int states, int parameters, const ensemble *e) {
    typedef vec state[GROUPS][MAX_STATES];
    state y = {0}, k1 = {0}, k2, k3, k4, k5, k6, k7, stage, ahead;
    vec p[GROUPS][MAX_PARAMETERS] = {0}, t[GROUPS] = {0}, h[GROUPS] = {0}, end[GROUPS];
    mask accepted[GROUPS], rejected[GROUPS], last[GROUPS], ended[GROUPS]; /* ended: lanes that wait for a member */
    long member[GROUPS][WIDTH], next = 0, left = e->members;
    for (int g = 0; g < GROUPS; g++) {
        ended[g] = ~(mask){0};
        for (int i = 0; i < WIDTH; i++) member[g][i] = -1;
    }
    for (;;) {
        mask some = {0};
        EACH_GROUP some |= ended[g];
        if (__builtin_expect(any(some), 0)) {
            for (int g = 0; g < GROUPS; g++) {
                for (int i = 0; i < WIDTH; i++) {
                    if (!ended[g][i]) continue;
                    const long m = member[g][i];
                    if (m >= 0) {
                        for (int n = 0; n < states; n++) e->y[m * states + n] = y[g][n][i];
                        e->accepted[m] = accepted[g][i];
                        e->rejected[m] = rejected[g][i];
                        left--;
                    }
                    const int fresh = next < e->members;
                    member[g][i] = fresh ? next++ : -1;
                    t[g][i] = 0;
                    h[g][i] = fresh ? e->first_step : 0;
                    end[g][i] = fresh ? e->end : FAR;
                    accepted[g][i] = rejected[g][i] = 0;
                    for (int n = 0; n < states && fresh; n++) y[g][n][i] = e->y0[member[g][i] * states + n];
                    for (int n = 0; n < parameters && fresh; n++) p[g][n][i] = e->p[member[g][i] * parameters + n];
                }
                field(which, y[g], p[g], k1[g]);
            }
            if (left == 0) return;
        }
        EACH_GROUP {
            const vec rest = end[g] - t[g];
            last[g] = h[g] >= rest;
            h[g] = least(h[g], rest);
        }
        STAGE(stage, A2, k2)
        STAGE(stage, A3, k3)
        STAGE(stage, A4, k4)
        STAGE(stage, A5, k5)
        STAGE(stage, A6, k6)
        STAGE(ahead, A7, k7)
        EACH_GROUP {
            vec square = fill(0);
            EACH_STATE {
                const vec scale = e->tolerance + e->tolerance * most(size(y[g][n]), size(ahead[g][n]));
                const vec ratio = (ERROR(n)) / scale;
                square += ratio * ratio;
            }
            square = square * (1.0 / states);
            const mask good = square < 1.0;
            const vec factor = 0.9 * inverse_tenth_root(least(most(square, fill(1e-30)), fill(1e30)));
            t[g] = choose(good, t[g] + h[g], t[g]);
            h[g] = h[g] * least(most(factor, fill(0.2)), fill(10.0));
            EACH_STATE {
                y[g][n] = choose(good, ahead[g][n], y[g][n]);
                k1[g][n] = choose(good, k7[g][n], k1[g][n]);
            }
            accepted[g] -= good;
            rejected[g] += good + 1;
            ended[g] = good & last[g];
        }
    }
}

static void run(problem which, const ensemble *e) {
    if (which == LORENZ) solve(LORENZ, 3, 1, e);
    else if (which == LOTKA_VOLTERRA) solve(LOTKA_VOLTERRA, 2, 4, e);
    else solve(VAN_DER_POL, 2, 1, e);
}

static double cpu(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

static void need(int condition, const char *message) {
    if (condition) return;
    fprintf(stderr, "ensemble: %s\n", message);
    exit(1);
}

int main(int count, char **words) {
    need(count == 8, "usage: ensemble PROBLEM TOLERANCE END FIRST_STEP SAMPLES GIVEN FOUND");
    const problem which = !strcmp(words[1], "lorenz") ? LORENZ : !strcmp(words[1], "lotka_volterra") ? LOTKA_VOLTERRA : VAN_DER_POL;
    need(which != VAN_DER_POL || !strcmp(words[1], "van_der_pol"), "no such problem");
    FILE *given = fopen(words[6], "rb");
    double head[3];
    need(given && fread(head, sizeof(double), 3, given) == 3, "cannot read the numbers of members, states and parameters");
    const long members = head[0], states = head[1], parameters = head[2];
    double *y0 = malloc(sizeof(double) * members * states), *p = malloc(sizeof(double) * members * parameters);
    double *found = malloc(sizeof(double) * members * (states + 2));
    need(y0 && p && found, "out of memory");
    need((long)fread(y0, sizeof(double), members * states, given) == members * states, "cannot read y0");
    need((long)fread(p, sizeof(double), members * parameters, given) == members * parameters, "cannot read p");
    fclose(given);
    double *accepted = found + members * states;
    const ensemble e = {members, atof(words[3]), atof(words[4]), atof(words[2]), y0, p, found, accepted, accepted + members};
    run(which, &e); /* touches the pages */
    for (int i = 0; i < atoi(words[5]); i++) {
        const double before = cpu();
        run(which, &e);
        printf("%.9f\n", cpu() - before);
    }
    FILE *out = fopen(words[7], "wb");
    need(out && (long)fwrite(found, sizeof(double), members * (states + 2), out) == members * (states + 2), "cannot write");
    return fclose(out);
}
