"""The part of the C source of an FMU that all models share: FMI 2.0, its types declared as the standard has them."""

TYPES = """\
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef void* Component;
typedef unsigned int Reference;
typedef int Status;
typedef int Boolean;
typedef struct {
    void (*logger)(void*, const char*, Status, const char*, const char*, ...);
    void* (*allocate)(size_t, size_t);
    void (*release)(void*);
    void (*stepped)(void*, Status);
    void* environment;
} Callbacks;
typedef struct {
    Boolean discrete_states_needed, terminate, nominals_changed, values_changed, next_event_defined;
    double next_event;
} EventInfo;
typedef struct {
    double time, tolerance, step;
    double r[SIZE + 1];
} Model;
enum { OK, WARNING, DISCARD, FAILURE };

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* A base that an approximate solution has made a little negative counts as 0. */
static double power(double base, double exponent) {
    return pow(base < 0 && exponent != round(exponent) ? 0 : base, exponent);
}
/* A slope along a direction: nothing where nothing moves, though the slope itself be infinite. */
static double times(double slope, double along) { return along == 0 ? 0 : slope * along; }
static double minimum(double a, double b) { return isnan(a) || isnan(b) ? NAN : (a < b ? a : b); }
static double maximum(double a, double b) { return isnan(a) || isnan(b) ? NAN : (a > b ? a : b); }
"""

FUNCTIONS = """\
EXPORT const char* fmi2GetTypesPlatform(void) { return "default"; }
EXPORT const char* fmi2GetVersion(void) { return "2.0"; }
EXPORT Status fmi2SetDebugLogging(Component c, Boolean on, size_t n, const char* const names[]) { return OK; }

EXPORT Status fmi2Reset(Component c) {
    Model* m = (Model*)c;
    m->time = 0, m->tolerance = 1e-8, m->step = 0;
    memcpy(m->r, START, sizeof(START));
    return OK;
}
EXPORT Component fmi2Instantiate(const char* name, int type, const char* guid, const char* resources,
                                 const Callbacks* callbacks, Boolean visible, Boolean logging) {
    Model* m;
    if (guid == NULL || strcmp(guid, GUID) != 0) return NULL;
    m = (Model*)calloc(1, sizeof(Model));
    if (m != NULL) fmi2Reset(m);
    return m;
}
EXPORT void fmi2FreeInstance(Component c) { free(c); }
EXPORT Status fmi2SetupExperiment(Component c, Boolean given, double tolerance, double start, Boolean ends, double stop) {
    Model* m = (Model*)c;
    m->time = start;
    if (given && tolerance > 0) m->tolerance = tolerance;
    return OK;
}
EXPORT Status fmi2EnterInitializationMode(Component c) { return OK; }
EXPORT Status fmi2ExitInitializationMode(Component c) { return OK; }
EXPORT Status fmi2Terminate(Component c) { return OK; }

EXPORT Status fmi2GetReal(Component c, const Reference ids[], size_t n, double values[]) {
    Model* m = (Model*)c;
    double found[SIZE + 1];
    size_t i;
    memcpy(found, m->r, sizeof(found));
    slopes(m->time, m->r, found + STATES);
    outputs(m->time, m->r, found + OUTPUTS);
    for (i = 0; i < n; i++) {
        if (ids[i] >= SIZE) return FAILURE;
        values[i] = found[ids[i]];
    }
    return OK;
}
EXPORT Status fmi2SetReal(Component c, const Reference ids[], size_t n, const double values[]) {
    size_t i;
    for (i = 0; i < n; i++) {
        if (ids[i] >= OUTPUTS || (ids[i] >= STATES && ids[i] < 2 * STATES)) return FAILURE;
        ((Model*)c)->r[ids[i]] = values[i];
    }
    return OK;
}
#define OTHER(KIND, TYPE) \\
    EXPORT Status fmi2Get##KIND(Component c, const Reference ids[], size_t n, TYPE values[]) { return n ? FAILURE : OK; } \\
    EXPORT Status fmi2Set##KIND(Component c, const Reference ids[], size_t n, const TYPE values[]) { return n ? FAILURE : OK; }
OTHER(Integer, int)
OTHER(Boolean, Boolean)
typedef const char* Text;
OTHER(String, Text)

EXPORT Status fmi2GetFMUstate(Component c, void** state) {
    if (*state == NULL) *state = malloc(sizeof(Model));
    if (*state == NULL) return FAILURE;
    memcpy(*state, c, sizeof(Model));
    return OK;
}
EXPORT Status fmi2SetFMUstate(Component c, void* state) { memcpy(c, state, sizeof(Model)); return OK; }
EXPORT Status fmi2FreeFMUstate(Component c, void** state) { free(*state); *state = NULL; return OK; }
EXPORT Status fmi2SerializedFMUstateSize(Component c, void* state, size_t* n) { *n = sizeof(Model); return OK; }
EXPORT Status fmi2SerializeFMUstate(Component c, void* state, char bytes[], size_t n) {
    if (n < sizeof(Model)) return FAILURE;
    memcpy(bytes, state, sizeof(Model));
    return OK;
}
EXPORT Status fmi2DeSerializeFMUstate(Component c, const char bytes[], size_t n, void** state) {
    if (n != sizeof(Model)) return FAILURE;
    *state = NULL;
    if (fmi2GetFMUstate(c, state) != OK) return FAILURE;
    memcpy(*state, bytes, n);
    return OK;
}
EXPORT Status fmi2GetDirectionalDerivative(Component c, const Reference unknown[], size_t n, const Reference known[],
                                           size_t m, const double seed[], double values[]) {
    const Model* at = (Model*)c;
    double along[SIZE + 1] = {0}, found[SIZE + 1] = {0};
    size_t i;
    for (i = 0; i < m; i++) {
        if (known[i] >= OUTPUTS || (known[i] >= STATES && known[i] < 2 * STATES)) return FAILURE;
        along[known[i]] += seed[i];
    }
    memcpy(found, along, STATES * sizeof(double));
    slopes_along(at->time, at->r, along, found + STATES);
    outputs_along(at->time, at->r, along, found + OUTPUTS);
    for (i = 0; i < n; i++) {
        if (unknown[i] >= SIZE || (unknown[i] >= 2 * STATES && unknown[i] < OUTPUTS)) return FAILURE;
        values[i] = found[unknown[i]];
    }
    return OK;
}

/* ---- model exchange ---- */

EXPORT Status fmi2EnterEventMode(Component c) { return OK; }
EXPORT Status fmi2NewDiscreteStates(Component c, EventInfo* info) { memset(info, 0, sizeof(EventInfo)); return OK; }
EXPORT Status fmi2EnterContinuousTimeMode(Component c) { return OK; }
EXPORT Status fmi2CompletedIntegratorStep(Component c, Boolean no_going_back, Boolean* event, Boolean* terminate) {
    *event = *terminate = 0;
    return OK;
}
EXPORT Status fmi2SetTime(Component c, double time) { ((Model*)c)->time = time; return OK; }
EXPORT Status fmi2SetContinuousStates(Component c, const double x[], size_t n) {
    memcpy(((Model*)c)->r, x, n * sizeof(double));
    return OK;
}
EXPORT Status fmi2GetContinuousStates(Component c, double x[], size_t n) {
    memcpy(x, ((Model*)c)->r, n * sizeof(double));
    return OK;
}
EXPORT Status fmi2GetDerivatives(Component c, double dx[], size_t n) {
    slopes(((Model*)c)->time, ((Model*)c)->r, dx);
    return OK;
}
EXPORT Status fmi2GetEventIndicators(Component c, double values[], size_t n) { return OK; }
EXPORT Status fmi2GetNominalsOfContinuousStates(Component c, double x[], size_t n) {
    size_t i;
    for (i = 0; i < n; i++) x[i] = 1;
    return OK;
}

/* ---- co-simulation: Dormand and Prince's method of order 5 with steps by its error ---- */

static const double A[7][6] = {
    {0}, {1. / 5}, {3. / 40, 9. / 40}, {44. / 45, -56. / 15, 32. / 9},
    {19372. / 6561, -25360. / 2187, 64448. / 6561, -212. / 729},
    {9017. / 3168, -355. / 33, 46732. / 5247, 49. / 176, -5103. / 18656},
    {35. / 384, 0, 500. / 1113, 125. / 192, -2187. / 6784, 11. / 84}};
static const double C[7] = {0, 1. / 5, 3. / 10, 4. / 5, 8. / 9, 1, 1};
static const double E[7] = {71. / 57600, 0, -71. / 16695, 71. / 1920, -17253. / 339200, 22. / 525, -1. / 40};

static double attempt(Model* m, double h, double y[]) {
    double k[7][STATES + 1], at[SIZE + 1], error, size, worst = 0;
    int s, j, i;
    memcpy(at, m->r, sizeof(at));
    for (s = 0; s < 7; s++) {
        for (i = 0; i < STATES; i++) {
            at[i] = m->r[i];
            for (j = 0; j < s; j++) at[i] += h * A[s][j] * k[j][i];
        }
        slopes(m->time + C[s] * h, at, k[s]);
    }
    for (i = 0; i < STATES; i++) {
        y[i] = at[i];
        for (error = 0, s = 0; s < 7; s++) error += h * E[s] * k[s][i];
        size = m->tolerance * (1e-6 + maximum(fabs(m->r[i]), fabs(y[i])));
        if (!isfinite(error) || !isfinite(y[i])) return INFINITY;
        worst = maximum(worst, fabs(error) / size);
    }
    return worst;
}
EXPORT Status fmi2DoStep(Component c, double begin, double length, Boolean no_set) {
    Model* m = (Model*)c;
    double end = begin + length, y[STATES + 1], h, error;
    int trials = 0;
    m->time = begin;
    if (m->step <= 0) m->step = length;
    while (m->time < end) {
        h = m->step < end - m->time ? m->step : end - m->time;
        error = attempt(m, h, y);
        if (++trials > 1000000 || !(m->time + h > m->time)) return FAILURE;
        if (error <= 1) {
            memcpy(m->r, y, STATES * sizeof(double));
            m->time = h < end - m->time ? m->time + h : end;
        }
        if (error > 1 || h == m->step) {
            h *= isinf(error) ? 0.1 : fmin(5, fmax(0.2, 0.9 * pow(error + 1e-10, -0.2)));
            m->step = h;
        }
    }
    return OK;
}
EXPORT Status fmi2CancelStep(Component c) { return FAILURE; }
EXPORT Status fmi2SetRealInputDerivatives(Component c, const Reference ids[], size_t n, const int order[],
                                          const double values[]) { return FAILURE; }
EXPORT Status fmi2GetRealOutputDerivatives(Component c, const Reference ids[], size_t n, const int order[],
                                           double values[]) { return FAILURE; }
EXPORT Status fmi2GetStatus(Component c, int kind, Status* value) { return DISCARD; }
EXPORT Status fmi2GetRealStatus(Component c, int kind, double* value) {
    if (kind != 2) return DISCARD;
    *value = ((Model*)c)->time;
    return OK;
}
EXPORT Status fmi2GetIntegerStatus(Component c, int kind, int* value) { return DISCARD; }
EXPORT Status fmi2GetBooleanStatus(Component c, int kind, Boolean* value) { return DISCARD; }
EXPORT Status fmi2GetStringStatus(Component c, int kind, const char** value) { return DISCARD; }
"""
