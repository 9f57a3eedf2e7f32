// A kernel of Lorenz systems, one thread a member: fixed steps of Tsit5, single precision, the bound that simkit's kernel is measured by.
//
// nvcc -O3 -o lorenz lorenz.cu && ./lorenz MEMBERS STEPS STEP_LENGTH

#include <cstdio>
#include <cstdlib>
#include <vector>

#define OK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { fprintf(stderr, "%s\n", cudaGetErrorString(e)); exit(1); } } while (0)

__device__ __forceinline__ void field(const float r, const float *y, float *f) {
    f[0] = 10.0f * (y[1] - y[0]);
    f[1] = y[0] * (r - y[2]) - y[1];
    f[2] = y[0] * y[1] - (8.0f / 3.0f) * y[2];
}

__global__ void solve(const float *rho, float *out, int members, int steps, float h) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= members) return;
    const float a[6][5] = {
        {0.0f, 0.0f, 0.0f, 0.0f, 0.0f},
        {0.161f, 0.0f, 0.0f, 0.0f, 0.0f},
        {-0.008480655492356989f, 0.335480655492357f, 0.0f, 0.0f, 0.0f},
        {2.8971530571054935f, -6.359448489975075f, 4.3622954328695815f, 0.0f, 0.0f},
        {5.325864828439257f, -11.748883564062828f, 7.4955393428898365f, -0.09249506636175525f, 0.0f},
        {5.86145544294642f, -12.92096931784711f, 8.159367898576159f, -0.071584973281401f, -0.028269050394068383f}};
    const float b[6] = {0.09646076681806523f, 0.01f, 0.4798896504144996f, 1.379008574103742f, -3.290069515436081f, 2.324710524099774f};
    const float r = rho[i];
    float y[3] = {1.0f, 0.0f, 0.0f};
    for (int n = 0; n < steps; n++) {
        float k[6][3];
#pragma unroll
        for (int s = 0; s < 6; s++) {
            float z[3];
#pragma unroll
            for (int c = 0; c < 3; c++) {
                float sum = 0.0f;
#pragma unroll
                for (int p = 0; p < s; p++) sum += a[s][p] * k[p][c];
                z[c] = y[c] + h * sum;
            }
            field(r, z, k[s]);
        }
#pragma unroll
        for (int c = 0; c < 3; c++) {
            float sum = 0.0f;
#pragma unroll
            for (int p = 0; p < 6; p++) sum += b[p] * k[p][c];
            y[c] += h * sum;
        }
    }
    for (int c = 0; c < 3; c++) out[c * members + i] = y[c];
}

int main(int argc, char **argv) {
    const int members = atoi(argv[1]), steps = atoi(argv[2]);
    const float h = atof(argv[3]);
    std::vector<float> rho(members), end(3 * (size_t)members);
    for (int i = 0; i < members; i++) rho[i] = 21.0f * i / (members - 1);
    float *in, *out;
    OK(cudaMalloc(&in, members * sizeof(float)));
    OK(cudaMalloc(&out, 3 * (size_t)members * sizeof(float)));
    OK(cudaMemcpy(in, rho.data(), members * sizeof(float), cudaMemcpyHostToDevice));
    cudaEvent_t begin, stop;
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&stop));
    float least = 1e30f;
    for (int run = 0; run < 6; run++) {
        OK(cudaEventRecord(begin));
        solve<<<(members + 127) / 128, 128>>>(in, out, members, steps, h);
        OK(cudaEventRecord(stop));
        OK(cudaEventSynchronize(stop));
        OK(cudaGetLastError());
        float spent;
        OK(cudaEventElapsedTime(&spent, begin, stop));
        if (run && spent < least) least = spent;
    }
    OK(cudaMemcpy(end.data(), out, end.size() * sizeof(float), cudaMemcpyDeviceToHost));
    // Milliseconds, then the state of a member of which the end is no chaos.
    const int one = members / 10;
    printf("%.6f %.9g %.9g %.9g\n", least, end[one], end[members + (size_t)one], end[2 * (size_t)members + one]);
}
