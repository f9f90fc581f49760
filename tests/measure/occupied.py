# SPDX-License-Identifier: MIT
"""What a collective takes from compute, on one GPU: a kernel shaped like NCCL's (a block a channel, 544
threads with some 90 registers each, 80 KiB of shared memory: nearly a whole SM) holds SMs, idle or moving
bytes at a channel's pace, while kernels of LLaMA run on another stream.  Also how long such a kernel
waits for its SMs behind running kernels, and whether it keeps its pace beside them.

Needs CuPy (NVRTC); without it the part says so and ends."""
CHANNEL_RATE = 14.4      # bytes a nanosecond: 345 GB/s over 24 channels
THREADS, EACH = 544, 16  # threads of a block, 16-byte words of a thread in one go
SHARED = 80 << 10
SPAN_MS = 8.0

SOURCE = r"""
extern "C" __device__ __forceinline__ unsigned long long now()
{
  unsigned long long t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

/* For `length` ns: copies its part of `from` to both targets at `pace` ns a turn (0: as
   fast as it can; < 0: only waits).  out: start, end, turns done, by block. */
extern "C" __global__ void __launch_bounds__(544, 1)
occupy(const uint4 *from, uint4 *to, uint4 *also, long long words, long long length, double pace, int copies,
       unsigned long long *out)
{
  extern __shared__ uint4 shared[];
  const int each = 16;
  unsigned long long begin = now();
  const long long mine = words / gridDim.x;
  const uint4 *source = from + mine * blockIdx.x;
  uint4 *target = to + mine * blockIdx.x, *second = also + mine * blockIdx.x;
  const long long turn = (long long) blockDim.x * each;
  unsigned long long turns = 0;
  long long at = 0;

  if (threadIdx.x == 0)
    shared[0].x = 0;
  while (now() - begin < (unsigned long long) length) {
    if (pace >= 0) {
      uint4 value[each];
      if (at + turn > mine)
        at = 0;
#pragma unroll
      for (int i = 0; i < each; i++)
        value[i] = source[at + i * blockDim.x + threadIdx.x];
#pragma unroll
      for (int i = 0; i < each; i++) {
        target[at + i * blockDim.x + threadIdx.x] = value[i];
        if (copies > 1)
          second[at + i * blockDim.x + threadIdx.x] = value[i];
      }
      at += turn;
      turns++;
      while (pace > 0 && (double) (now() - begin) < turns * pace && now() - begin < (unsigned long long) length)
        ;
      __syncthreads();
    }
  }
  if (threadIdx.x == 0) {
    out[3 * blockIdx.x] = begin;
    out[3 * blockIdx.x + 1] = now();
    out[3 * blockIdx.x + 2] = turns;
  }
}

/* Waits `length` ns on the SM where it has been since the GPU was idle, and notes its end. */
extern "C" __global__ void wait(long long length, unsigned long long *out)
{
  unsigned long long begin = now();

  while (now() - begin < (unsigned long long) length)
    ;
  out[0] = now();
}
"""


def kernels(torch):
    """Name and call of LLaMA's kernels: products rows x inner x columns, attention, memory-bound ones."""
    half = torch.bfloat16
    functional = torch.nn.functional

    def product(rows, inner, columns, form="forward"):
        a = torch.randn(rows, inner, dtype=half, device="cuda")
        b = torch.randn(columns, inner, dtype=half, device="cuda")
        g = torch.randn(rows, columns, dtype=half, device="cuda")
        if form == "forward":
            return lambda: torch.mm(a, b.t())
        if form == "dgrad":
            return lambda: torch.mm(g, b)
        return lambda: torch.mm(g.t(), a)

    some = []
    for rows, inner, columns in ((8192, 8192, 8192), (2048, 4096, 4096), (2048, 4096, 11008), (2048, 11008, 4096),
                                 (8192, 4096, 4096), (8192, 4096, 11008), (4096, 2048, 8192), (4096, 2048, 2048),
                                 (4096, 8192, 2048), (2048, 4096, 32000), (1024, 4096, 4096)):
        some.append(("mm-%d-%d-%d" % (rows, inner, columns), product(rows, inner, columns)))
    for form in ("dgrad", "wgrad"):
        some.append(("mm-2048-4096-11008-" + form, product(2048, 4096, 11008, form)))
    x = torch.randn(256 << 20, dtype=half, device="cuda")
    y = torch.empty_like(x)
    some.append(("add-512MiB", lambda: torch.add(x, 1.0, out=y)))
    small, out = x[:16 << 20], y[:16 << 20]
    some.append(("add-32MiB", lambda: torch.add(small, 1.0, out=out)))
    wide = torch.empty(64 << 20, dtype=torch.float32, device="cuda")
    some.append(("cast-64Mi", lambda: wide.copy_(x[:64 << 20])))
    q, k, v = (torch.randn(1, 32, 4096, 128, dtype=half, device="cuda", requires_grad=True) for _ in range(3))
    some.append(("sdpa-32x4096x128", lambda: functional.scaled_dot_product_attention(
        q.detach(), k.detach(), v.detach(), is_causal=True)))
    result = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    grad = torch.randn_like(result)
    some.append(("sdpa-backward-32x4096x128", lambda: torch.autograd.grad(result, (q, k, v), grad,
                                                                         retain_graph=True)))
    logits = torch.randn(2048, 32000, dtype=torch.float32, device="cuda")
    some.append(("softmax-2048x32000", lambda: torch.log_softmax(logits, -1)))
    return some


class Occupier:
    def __init__(self, context):
        import cupy
        torch = context.torch
        self.torch, self.cupy = torch, cupy
        module = cupy.RawModule(code=SOURCE, options=("--std=c++14",))
        self.kernel, self.wait_kernel = module.get_function("occupy"), module.get_function("wait")
        self.kernel.max_dynamic_shared_size_bytes = SHARED
        self.words = (256 << 20) // 16
        self.buffers = [torch.zeros(256 << 20, dtype=torch.uint8, device="cuda") for _ in range(3)]
        self.out = torch.zeros(3 * 256 + 1, dtype=torch.int64, device="cuda")

    def launch(self, stream, blocks, milliseconds, mode, copies=2):
        """Mode: "spin" (waits), "pace" (a channel's rate) or "free" (as fast as it can)."""
        turn = THREADS * EACH * 16
        pace = {"spin": -1.0, "free": 0.0, "pace": turn / CHANNEL_RATE}[mode]
        cupy = self.cupy
        with cupy.cuda.ExternalStream(stream.cuda_stream):
            self.kernel((blocks,), (THREADS,), tuple(cupy.uint64(buffer.data_ptr()) for buffer in self.buffers)
                        + (cupy.int64(self.words), cupy.int64(int(milliseconds * 1e6)), cupy.float64(pace),
                           cupy.int32(copies), cupy.uint64(self.out.data_ptr())), shared_mem=SHARED)

    def wait(self, stream, seconds):
        with self.cupy.cuda.ExternalStream(stream.cuda_stream):
            self.wait_kernel((1,), (1,), (self.cupy.int64(int(seconds * 1e9)),
                                          self.cupy.uint64(self.out.data_ptr() + 3 * 256 * 8)))

    def read(self, blocks):
        """First start, last start, last end (ns), bytes that it copied (once)."""
        values = self.out.tolist()
        starts, ends, turns = values[0:3 * blocks:3], values[1:3 * blocks:3], values[2:3 * blocks:3]
        return min(starts), max(starts), max(ends), sum(turns) * THREADS * EACH * 16


def slowed(context, occupier, call, turns, blocks, mode):
    """Microseconds of a kernel while the blocks are there; what they copied, as a part of their pace."""
    torch = context.torch
    ours, theirs = torch.cuda.Stream(), torch.cuda.Stream()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    if blocks:
        occupier.launch(theirs, blocks, 3 * SPAN_MS, mode)
    with torch.cuda.stream(ours):
        torch.cuda._sleep(int(2e9 * (0.0005 + 30e-6 * turns)))   # the host gets ahead
        call()
        start.record(ours)
        for _ in range(turns):
            call()
        end.record(ours)
    torch.cuda.synchronize()
    kept = 0.0
    if blocks:
        first, _, last, copied = occupier.read(blocks)
        kept = copied / (CHANNEL_RATE * blocks * (last - first))
    return start.elapsed_time(end) * 1000 / turns, kept


def delay(context, occupier, call, turns, blocks, priority):
    """Microseconds from where the blocks' kernel could start to the start of its first and last block,
    behind kernels that follow one another."""
    torch = context.torch
    ours, theirs = torch.cuda.Stream(), torch.cuda.Stream(priority=priority)
    before = 0.0005 + 40e-6 * turns
    torch.cuda.synchronize()
    occupier.wait(theirs, before + 0.0003)                       # ends well into the kernels
    occupier.launch(theirs, blocks, 0.2, "spin")
    with torch.cuda.stream(ours):
        torch.cuda._sleep(int(2e9 * before))
        for _ in range(turns):
            call()
    torch.cuda.synchronize()
    first, last, _, _ = occupier.read(blocks)
    ready = occupier.out.tolist()[-1]
    return (first - ready) / 1000.0, (last - ready) / 1000.0


def run(context):
    context.open(60)
    try:
        occupier = Occupier(context)
    except ImportError as error:
        context.say("left out: %s" % error)
        return
    context.say("compiled")
    some = kernels(context.torch)
    for name, call in some:
        for _ in range(3):
            call()
        rough, _ = slowed(context, occupier, call, 10, 0, "spin")
        turns = max(4, min(200, int(SPAN_MS * 1000 / rough)))
        alone = sorted(slowed(context, occupier, call, turns, 0, "spin")[0] for _ in range(3))[1]
        for mode in ("spin", "pace"):
            for blocks in (4, 8, 16, 24, 32, 48) if mode == "spin" else (8, 24):
                times = sorted(slowed(context, occupier, call, turns, blocks, mode) for _ in range(3))
                context.emit("occupied", kernel=name, blocks=blocks, mode=mode, us_alone=round(alone, 3),
                             us_with=round(times[1][0], 3), slowdown=round(times[1][0] / alone, 4),
                             kept=round(times[1][1], 4))
        for priority in (0, -1):
            delays = sorted((delay(context, occupier, call, max(6, min(100, turns // 2)), 24, priority)
                             for _ in range(5)), key=lambda pair: pair[1])
            context.emit("delay", kernel=name, blocks=24, priority=priority, us_alone=round(alone, 3),
                         us_first=round(delays[2][0], 3), us_last=round(delays[2][1], 3),
                         us_most=round(delays[-1][1], 3))
    context.say("kernels beside blocks")
    host(context, occupier, some)


def host(context, occupier, some):
    """Copies from and to the host beside kernels, and beside the blocks: do they slow each other?"""
    from timing import Work, count_for, together
    torch = context.torch
    size = 64 << 20
    pinned = [torch.zeros(size, dtype=torch.uint8).pin_memory() for _ in range(2)]
    device = [torch.zeros(size, dtype=torch.uint8, device="cuda") for _ in range(2)]
    up, down, third = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Stream()
    works = {"h2d": Work("h2d", lambda: device[0].copy_(pinned[0], non_blocking=True), up),
             "d2h": Work("d2h", lambda: pinned[1].copy_(device[1], non_blocking=True), down)}
    copies = count_for(size, 50e9, 0.02)
    for name, call in some:
        if not name.startswith(("mm-8192-8192", "mm-2048-4096-11008", "add-512", "sdpa-32")):
            continue
        kernel = Work(name, call, third)
        turns = max(4, min(300, int(20e3 / max(1.0, together(context, [kernel], [8])[0]))))
        alone = together(context, [kernel], [turns])[0]
        for kind, work in works.items():
            single = together(context, [work], [copies])[0]
            copy_with, kernel_with = together(context, [work, kernel], [copies, turns])
            context.emit("contention", ranks=1, op=kind, bytes=size, ctas=0, priority=0, beside=name,
                         beside_bytes=0, us_alone=round(single, 2), us_with=round(copy_with, 2),
                         beside_us_alone=round(alone, 2), beside_us_with=round(kernel_with, 2))
    context.say("copies beside kernels")
