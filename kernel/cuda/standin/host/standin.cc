// A libcuda.so.1 that runs the kernels on the CPU. It delays work until the caller asks for the
// result, so tests detect reads that come too early. Every allocation, rounded up to 16 bytes, ends at
// an unreadable page.
// standin_set injects faults, and so do environment variables whose names are STANDIN_ followed by
// a setting in capitals.
#include "cuda_host.h"

#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <sys/mman.h>
#include <vector>

Index threadIdx, blockIdx, gridDim;

namespace standin {

std::map<std::string, Registered>& kernels() {
	static std::map<std::string, Registered> all;
	return all;
}

static std::vector<std::pair<void*, size_t>>& shared_pieces() {
	static std::vector<std::pair<void*, size_t>> all;
	return all;
}

void* add_shared(size_t bytes) {
	void* p = aligned_alloc(128, (bytes + 127) / 128 * 128);
	memset(p, 0xff, bytes);
	shared_pieces().push_back({p, bytes});
	return p;
}

// ---- Fibers

extern "C" void standin_switch(void** from, void* to);
#if defined(__x86_64__)
asm(R"(
.text
.globl standin_switch
standin_switch:
	pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
	movq %rsp, (%rdi)
	movq %rsi, %rsp
	popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
	ret
)");
static void* new_frame(unsigned char* top, void (*entry)()) {
	void** sp = (void**)((uintptr_t)top & ~(uintptr_t)15);
	*--sp = nullptr; // the return address of entry, which never returns
	*--sp = (void*)entry;
	for (int i = 0; i < 6; i++) *--sp = nullptr;
	return sp;
}
#elif defined(__aarch64__)
asm(R"(
.text
.globl standin_switch
standin_switch:
	sub sp, sp, #160
	stp x19, x20, [sp]; stp x21, x22, [sp, #16]; stp x23, x24, [sp, #32]; stp x25, x26, [sp, #48]
	stp x27, x28, [sp, #64]; stp x29, x30, [sp, #80]; stp d8, d9, [sp, #96]; stp d10, d11, [sp, #112]
	stp d12, d13, [sp, #128]; stp d14, d15, [sp, #144]
	mov x9, sp
	str x9, [x0]
	mov sp, x1
	ldp x19, x20, [sp]; ldp x21, x22, [sp, #16]; ldp x23, x24, [sp, #32]; ldp x25, x26, [sp, #48]
	ldp x27, x28, [sp, #64]; ldp x29, x30, [sp, #80]; ldp d8, d9, [sp, #96]; ldp d10, d11, [sp, #112]
	ldp d12, d13, [sp, #128]; ldp d14, d15, [sp, #144]
	add sp, sp, #160
	ret
)");
static void* new_frame(unsigned char* top, void (*entry)()) {
	uint64_t* sp = (uint64_t*)((uintptr_t)top & ~(uintptr_t)15) - 20;
	memset(sp, 0, 160);
	sp[11] = (uint64_t)entry;
	return sp;
}
#else
#error "the stand-in runs on x86-64 and arm64"
#endif

enum State { Ready, AtBlock, AtWarp, Ended };

struct Copy {
	void* to;
	const void* from;
};

struct Fiber {
	void* sp;
	State state;
	unsigned mask; // of a barrier of the warp
	std::deque<std::vector<Copy>> groups;
	std::vector<Copy> open;
};

constexpr size_t stack_bytes = 64 << 10;
static unsigned char* stacks;
static std::vector<Fiber> fibers(max_threads);
static std::vector<Warp> warps(max_threads / 32);
static int current, threads;
static void* scheduler;
static const Registered* running;
static const void* arguments;
static int votes, verdict;
static std::vector<unsigned char> dynamic_memory;
unsigned char* dynamic;

Warp& warp() { return warps[current / 32]; }
unsigned lane() { return current % 32; }

static void leave() { standin_switch(&fibers[current].sp, scheduler); }

static void entry() {
	running->run(running->kernel, arguments);
	fibers[current].state = Ended;
	leave();
	abort();
}

void block_barrier() {
	fibers[current].state = AtBlock;
	leave();
}

int block_or(int p) {
	votes |= p != 0;
	block_barrier();
	int all = verdict;
	block_barrier();
	return all;
}

void warp_barrier(unsigned mask) {
	Fiber& f = fibers[current];
	int base = current / 32 * 32;
	if (!(mask >> (current - base) & 1)) {
		fprintf(stderr, "standin: thread %d is not in its own mask %08x\n", current, mask);
		abort();
	}
	f.state = AtWarp, f.mask = mask;
	for (int i = 0; i < 32; i++) {
		if (!(mask >> i & 1)) continue;
		if (fibers[base + i].state != AtWarp || fibers[base + i].mask != mask) return leave();
	}
	for (int i = 0; i < 32; i++)
		if (mask >> i & 1) fibers[base + i].state = Ready;
}

// Copies happen as late as allowed: when the thread waits for them.
void copy_async(void* to, const void* from) {
	if ((uintptr_t)to % 16 || (uintptr_t)from % 16) {
		fprintf(stderr, "standin: cp.async of 16 bytes between %p and %p\n", to, from);
		abort();
	}
	memset(to, 0xff, 16); // the old contents are lost from now on
	fibers[current].open.push_back({to, from});
}
void copy_commit() {
	Fiber& f = fibers[current];
	f.groups.push_back(std::move(f.open));
	f.open.clear();
}
void copy_wait(int n) {
	Fiber& f = fibers[current];
	for (; (int)f.groups.size() > n; f.groups.pop_front())
		for (auto& c : f.groups.front()) memcpy(c.to, c.from, 16);
}

// Runs a thread block. Returns false if its threads deadlock.
static bool run_block() {
	for (auto& s : shared_pieces()) memset(s.first, 0xff, s.second);
	std::fill(dynamic_memory.begin(), dynamic_memory.end(), 0xff);
	for (int i = 0; i < threads; i++) {
		Fiber& f = fibers[i];
		f.state = Ready, f.sp = new_frame(stacks + (i + 1) * stack_bytes, entry);
		f.groups.clear(), f.open.clear();
	}
	votes = 0;
	// Every other round runs the threads in reverse order, so a missing barrier makes one of them
	// read a value that is not there yet.
	for (bool back = false;; back = !back) {
		bool moved = false;
		int at = 0, ended = 0;
		for (int n = 0; n < threads; n++) {
			int i = back ? threads - 1 - n : n;
			if (fibers[i].state != Ready) continue;
			moved = true;
			current = i;
			threadIdx.x = i;
			standin_switch(&scheduler, fibers[i].sp);
		}
		for (int i = 0; i < threads; i++) at += fibers[i].state == AtBlock, ended += fibers[i].state == Ended;
		if (ended == threads) return true;
		if (at + ended == threads) {
			verdict = votes, votes = 0;
			for (int i = 0; i < threads; i++)
				if (fibers[i].state == AtBlock) fibers[i].state = Ready;
		} else if (!moved) {
			bool ready = false;
			for (int i = 0; i < threads; i++) ready |= fibers[i].state == Ready;
			if (!ready) return false;
		}
	}
}

// ---- The driver

enum {
	Success = 0, InvalidValue = 1, OutOfMemory = 2, NotInitialized = 3, NoDevice = 100, InvalidDevice = 101,
	InvalidContext = 201, InvalidPTX = 218, NotFound = 500, NotReady = 600, IllegalAddress = 700,
	OutOfResources = 701, LaunchFailed = 719
};

static std::map<std::string, long long>& settings() {
	static std::map<std::string, long long> all = {
		{"devices", 1}, {"driver", 12040}, {"capability", 86}, {"shared", 99 << 10}, {"memory", 4LL << 30}, {"init", 0},
		// These faults happen at the n-th call from now on; 0 means never.
		{"fail_alloc", 0}, {"fail_pin", 0}, {"fail_stream", 0}, {"fail_event", 0}, {"fail_launch", 0}, {"lose", 0},
		{"careless", 0}, // bits that a tensor core loses beyond the assumption
	};
	return all;
}

static std::mutex mutex;

int lost_bits;

struct Stream;
struct Event {
	int device;
	Stream* stream = nullptr; // the stream that has not passed it yet
	long long asked = 0;
};
struct Stream {
	int device;
	std::deque<std::function<int()>> work;
};
struct Device {
	int retained = 0, lost = 0;
	long long used = 0;
};
struct Allocation {
	int device;
	size_t mapped, size;
	void* base;
};
// Page-locked memory.
struct Pinned {
	int device;
	size_t size;
};
// The static and the dynamic shared memory of a thread block need at most 48 KiB together, unless the
// caller sets the attribute for more dynamic memory.
struct Function {
	std::string name;
	Registered* kernel;
	int static_shared, dynamic_shared = (48 << 10) - static_shared;
};
// All who ask a module for a function get the same one.
struct Module {
	std::string text;
	std::map<std::string, Function*> functions;
};

// Returns the bytes of static shared memory that a kernel's PTX declares, in the kernel or before
// the first kernel.
static int static_shared(const std::string& text, size_t entry) {
	int sum = 0;
	size_t first = text.find(".entry "), next = text.find(".entry ", entry + 1);
	for (size_t at = 0; (at = text.find(".shared .align ", at)) != text.npos; at++) {
		if ((at > first && at < entry) || at > next) continue;
		size_t size = text.find('[', at); // "[]" for the dynamic memory, for which atoi returns 0
		if (size > text.find(';', at)) abort(); // not an array
		sum += atoi(text.c_str() + size + 1);
	}
	return sum;
}

static Device devices[16];
static thread_local int current_device = -1;
static std::map<uint64_t, Allocation> allocations;
static std::map<void*, Pinned> pinned;
static std::set<Stream*> streams;
static std::set<Event*> events;
static int streams_created;
static bool initialised;

// Counts down to an injected fault.
static bool fault(const char* name) {
	long long& n = settings()[name];
	return n > 0 && --n == 0;
}

static int check() {
	if (!initialised) return NotInitialized;
	if (current_device < 0) return InvalidContext;
	return devices[current_device].lost;
}

static int drain(Stream* s, Event* until) {
	while (!s->work.empty() && (!until || until->stream)) {
		auto f = std::move(s->work.front());
		s->work.pop_front();
		if (devices[s->device].lost) continue;
		if (int r = f()) devices[s->device].lost = r;
	}
	return devices[s->device].lost;
}

// Checks that the bytes are in one allocation of the current device.
static int inside(uint64_t p, uint64_t n) {
	auto it = allocations.upper_bound(p);
	if (it == allocations.begin()) return InvalidValue;
	--it;
	return it->second.device == current_device && p + n <= it->first + it->second.size ? Success : InvalidValue;
}

// Returns zeros, which need memory only once they are touched, or nullptr.
static unsigned char* map_memory(size_t bytes) {
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
	return p == MAP_FAILED ? nullptr : (unsigned char*)p;
}

static int run(Registered* k, std::vector<unsigned char> args, Index grid, Index block, unsigned shared) {
	if (!stacks) stacks = map_memory(stack_bytes * max_threads);
	gridDim = grid, threads = block.x;
	running = k, arguments = args.data();
	dynamic_memory.resize(shared + 128);
	dynamic = (unsigned char*)(((uintptr_t)dynamic_memory.data() + 127) & ~(uintptr_t)127);
	blockIdx.z = 0, threadIdx = {0, 0, 0};
	for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
		for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++)
			if (!run_block()) {
				fprintf(stderr, "standin: the threads of a thread block deadlock\n");
				return LaunchFailed;
			}
	return Success;
}

static const char* names(int r) {
	switch (r) {
	case OutOfMemory: return "CUDA_ERROR_OUT_OF_MEMORY";
	case NoDevice: return "CUDA_ERROR_NO_DEVICE";
	case InvalidValue: return "CUDA_ERROR_INVALID_VALUE";
	case InvalidContext: return "CUDA_ERROR_INVALID_CONTEXT";
	case InvalidPTX: return "CUDA_ERROR_INVALID_PTX";
	case NotFound: return "CUDA_ERROR_NOT_FOUND";
	case IllegalAddress: return "CUDA_ERROR_ILLEGAL_ADDRESS";
	case OutOfResources: return "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES";
	case LaunchFailed: return "CUDA_ERROR_LAUNCH_FAILED";
	case 999: return "CUDA_ERROR_UNKNOWN";
	}
	return nullptr;
}

} // namespace standin

using namespace standin;
#define API extern "C" __attribute__((visibility("default"))) int
#define LOCKED std::lock_guard<std::mutex> guard(mutex); if (int r = check()) return r

API standin_set(const char* name, long long value) {
	std::lock_guard<std::mutex> guard(mutex);
	if (!settings().count(name)) return InvalidValue;
	settings()[name] = value;
	lost_bits = (int)settings()["careless"];
	return Success;
}
// Reports what is still allocated, to detect leaks: bytes of the devices and of page-locked memory,
// contexts, streams and events.
API standin_held(long long* bytes, int* contexts, int* open) {
	std::lock_guard<std::mutex> guard(mutex);
	*bytes = 0, *contexts = 0, *open = (int)(streams.size() + events.size());
	for (auto& d : devices) *bytes += d.used, *contexts += d.retained;
	for (auto& p : pinned) *bytes += p.second.size;
	return Success;
}
API standin_streams() {
	std::lock_guard<std::mutex> guard(mutex);
	return streams_created;
}
API standin_size(const char* kernel) {
	auto it = kernels().find(kernel);
	return it == kernels().end() ? -1 : (int)it->second.size;
}
API standin_launches(const char* kernel) {
	std::lock_guard<std::mutex> guard(mutex);
	auto it = kernels().find(kernel);
	return it == kernels().end() ? -1 : (int)it->second.launches;
}

API cuInit(unsigned) {
	std::lock_guard<std::mutex> guard(mutex);
	static bool read = false;
	if (!read) {
		read = true;
		for (auto& s : settings()) {
			std::string name = "STANDIN_";
			for (char c : s.first) name += (char)toupper(c);
			if (const char* v = getenv(name.c_str())) s.second = atoll(v);
		}
	}
	lost_bits = (int)settings()["careless"];
	if (int r = (int)settings()["init"]) return r;
	if (settings()["devices"] == 0) return NoDevice;
	initialised = true;
	return Success;
}
API cuDriverGetVersion(int* v) { *v = (int)settings()["driver"]; return Success; }
API cuGetErrorName(int r, const char** p) { *p = names(r); return *p ? Success : InvalidValue; }
API cuGetErrorString(int r, const char** p) {
	*p = names(r) ? "as the test set it" : nullptr;
	return *p ? Success : InvalidValue;
}
API cuDeviceGetCount(int* n) { *n = (int)settings()["devices"]; return initialised ? Success : NotInitialized; }
API cuDeviceGet(int* d, int i) { *d = i; return i >= 0 && i < settings()["devices"] ? Success : InvalidDevice; }
API cuDeviceGetName(char* name, int size, int) { snprintf(name, size, "Stand-in"); return Success; }
API cuDeviceGetAttribute(int* v, int attribute, int) {
	switch (attribute) {
	case 16: *v = 1; break; // so that a thread block has several tiles
	case 75: *v = (int)settings()["capability"] / 10; break;
	case 76: *v = (int)settings()["capability"] % 10; break;
	case 97: *v = (int)settings()["shared"]; break;
	default: return InvalidValue;
	}
	return Success;
}
API cuDeviceTotalMem_v2(uint64_t* n, int) { *n = settings()["memory"]; return Success; }
API cuDevicePrimaryCtxRetain(uintptr_t* c, int d) {
	std::lock_guard<std::mutex> guard(mutex);
	devices[d].retained++;
	*c = d + 1;
	return Success;
}
// The last release frees everything that belongs to the context.
API cuDevicePrimaryCtxRelease_v2(int d) {
	std::lock_guard<std::mutex> guard(mutex);
	if (--devices[d].retained > 0) return Success;
	for (auto it = streams.begin(); it != streams.end();) it = (*it)->device == d ? streams.erase(it) : std::next(it);
	for (auto it = allocations.begin(); it != allocations.end();) {
		if (it->second.device != d) { ++it; continue; }
		munmap(it->second.base, it->second.mapped);
		it = allocations.erase(it);
	}
	for (auto it = events.begin(); it != events.end();) it = (*it)->device == d ? events.erase(it) : std::next(it);
	for (auto it = pinned.begin(); it != pinned.end();) {
		if (it->second.device != d) { ++it; continue; }
		free(it->first);
		it = pinned.erase(it);
	}
	devices[d] = Device();
	return Success;
}
API cuCtxSetCurrent(uintptr_t c) { current_device = (int)c - 1; return Success; }

API cuMemGetInfo_v2(uint64_t* free, uint64_t* total) {
	LOCKED;
	*total = settings()["memory"], *free = *total - devices[current_device].used;
	return Success;
}
API cuMemAlloc_v2(uint64_t* p, uint64_t n) {
	LOCKED;
	if (n == 0) return InvalidValue;
	if (fault("fail_alloc") || devices[current_device].used + (long long)n > settings()["memory"]) return OutOfMemory;
	const size_t page = 4096;
	size_t padded = (n + 15) / 16 * 16, mapped = (padded + page - 1) / page * page + page;
	unsigned char* base = map_memory(mapped);
	if (!base) return OutOfMemory;
	mprotect(base + mapped - page, page, PROT_NONE);
	unsigned char* at = base + mapped - page - padded;
	memset(at, 0xff, padded); // NaN in every floating-point type
	*p = (uint64_t)at;
	allocations[*p] = {current_device, mapped, (size_t)n, base};
	devices[current_device].used += n;
	return Success;
}
API cuMemFree_v2(uint64_t p) {
	LOCKED;
	auto it = allocations.find(p);
	if (it == allocations.end()) return InvalidValue;
	for (auto s : streams)
		if (s->device == it->second.device) drain(s, nullptr);
	devices[it->second.device].used -= it->second.size;
	munmap(it->second.base, it->second.mapped);
	allocations.erase(it);
	return Success;
}
API cuMemHostAlloc(void** p, uint64_t n, unsigned) {
	LOCKED;
	if (fault("fail_pin")) return OutOfMemory;
	*p = aligned_alloc(4096, (n + 4095) / 4096 * 4096);
	if (!*p) return OutOfMemory;
	pinned[*p] = {current_device, (size_t)n};
	return Success;
}
API cuMemFreeHost(void* p) {
	LOCKED;
	if (!pinned.erase(p)) return InvalidValue;
	free(p);
	return Success;
}
API cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, uint64_t n, Stream* s) {
	LOCKED;
	if (int r = inside(to, n)) return r;
	s->work.push_back([=] { memcpy((void*)to, from, n); return 0; });
	return Success;
}
API cuMemcpyDtoHAsync_v2(void* to, uint64_t from, uint64_t n, Stream* s) {
	LOCKED;
	if (int r = inside(from, n)) return r;
	s->work.push_back([=] { memcpy(to, (void*)from, n); return 0; });
	return Success;
}
API cuMemsetD8Async(uint64_t to, unsigned char v, uint64_t n, Stream* s) {
	LOCKED;
	if (int r = inside(to, n)) return r;
	s->work.push_back([=] { memset((void*)to, v, n); return 0; });
	return Success;
}
API cuStreamCreate(Stream** s, unsigned) {
	LOCKED;
	if (fault("fail_stream")) return OutOfMemory;
	*s = new Stream{current_device, {}};
	streams.insert(*s);
	streams_created++;
	return Success;
}
API cuStreamDestroy_v2(Stream* s) { LOCKED; drain(s, nullptr); streams.erase(s); delete s; return Success; }
API cuEventCreate(Event** e, unsigned) {
	LOCKED;
	if (fault("fail_event")) return OutOfMemory;
	*e = new Event{current_device};
	events.insert(*e);
	return Success;
}
API cuEventDestroy_v2(Event* e) {
	LOCKED;
	if (e->stream) drain(e->stream, e);
	events.erase(e);
	delete e;
	return Success;
}
API cuEventRecord(Event* e, Stream* s) {
	LOCKED;
	if (e->stream) drain(e->stream, e);
	e->stream = s, e->asked = 0;
	s->work.push_back([=] { e->stream = nullptr; return 0; });
	return Success;
}
// The first query returns NotReady.
API cuEventQuery(Event* e) {
	LOCKED;
	if (!e->stream) return Success;
	if (e->asked++ == 0) return NotReady;
	return drain(e->stream, e);
}

API cuModuleLoadDataEx(Module** m, const char* image, unsigned n, int* keys, void** values) {
	LOCKED;
	if (!strstr(image, ".version")) {
		for (unsigned i = 0; i < n; i++)
			if (keys[i] == 5) strcpy((char*)values[i], "ptxas fatal: no .version");
		return InvalidPTX;
	}
	*m = new Module{image};
	return Success;
}
API cuModuleGetFunction(Function** f, Module* m, const char* name) {
	LOCKED;
	auto it = kernels().find(name);
	size_t entry = m->text.find(".entry " + std::string(name) + "(");
	if (it == kernels().end() || entry == m->text.npos) return NotFound;
	Function*& known = m->functions[name];
	if (!known) known = new Function{name, &it->second, static_shared(m->text, entry)};
	*f = known;
	return Success;
}
API cuFuncSetAttribute(Function* f, int attribute, int v) {
	LOCKED;
	if (attribute != 8 || v + f->static_shared > settings()["shared"]) return InvalidValue;
	f->dynamic_shared = v;
	return Success;
}
API cuLaunchKernel(
	Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
	Stream* s, void** params, void**) {
	LOCKED;
	if (fault("fail_launch")) return OutOfResources;
	if (gz != 1 || gx == 0 || gy == 0 || gy > 65535) return InvalidValue;
	if (by != 1 || bz != 1 || bx > max_threads || bx % 32 || (int)shared > f->dynamic_shared) return InvalidValue;
	bool lose = fault("lose");
	std::vector<unsigned char> args((unsigned char*)params[0], (unsigned char*)params[0] + f->kernel->size);
	Registered* k = f->kernel;
	k->launches++;
	s->work.push_back([=] { return lose ? (int)IllegalAddress : run(k, args, {gx, gy, 1}, {bx, 1, 1}, shared); });
	return Success;
}
