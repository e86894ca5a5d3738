#include "tests/cuda_on_host/threads.h"

#include <array>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

#include "tensor/error.h"

namespace fovea::cuda_on_host {

Place* running = nullptr;

namespace {

namespace context = boost::context;

/// Tells the address sanitizer that the program goes on on another stack; nothing in builds without it.
class StackSwitch {
 public:
  void leave([[maybe_unused]] const void* bottom, [[maybe_unused]] std::size_t size) {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&fake_, bottom, size);
#endif
  }
  /// Learns which stack was left, for the way back.
  void arrive() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_, &other_bottom_, &other_size_);
#endif
  }
  void return_to_other() { leave(other_bottom_, other_size_); }

 private:
  [[maybe_unused]] void* fake_ = nullptr;
  const void* other_bottom_ = nullptr;
  std::size_t other_size_ = 0;
};

enum class State { ready, at_barrier, at_exchange, ended };

struct WarpExchange {
  unsigned mask = 0;
  std::uint64_t mine = 0;
  std::array<std::uint64_t, warp_lanes> all{};
};

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
};

/// One thread of a block. Its fiber outlives the block: it waits for the body of the next.
struct Thread {
  Place place;
  State state = State::ended;
  Site site;
  WarpExchange exchange;
  std::vector<Copy> open_copies;              ///< in no group yet
  std::deque<std::vector<Copy>> copy_groups;  ///< oldest first

  context::fiber fiber;      ///< while the thread waits
  context::fiber scheduler;  ///< while the thread runs
  StackSwitch into, out_of;
  context::stack_context stack;
};

#if defined(__SANITIZE_ADDRESS__)
// The address sanitizer keeps the variables of inlined functions apart: a derivative by five inputs, compiled with
// optimisations, has one frame of 272 KiB.
constexpr std::size_t stack_bytes = std::size_t{2} << 20;
#else
constexpr std::size_t stack_bytes = std::size_t{512} << 10;  // second derivatives of long formulas take 128 KiB
#endif

std::string at(const Site& site) { return fmt::format("{}:{}", site.file, site.line); }

/// Runs the blocks of one launch, with fibers kept from launch to launch.
class Machine {
 public:
  void run(const Launch& launch, Order order) {
    launch_ = &launch;
    order_ = order;
    const std::size_t threads = std::size_t{launch.block.x} * launch.block.y * launch.block.z;
    const std::size_t blocks = std::size_t{launch.grid.x} * launch.grid.y * launch.grid.z;
    while (threads_.size() < threads) threads_.push_back(make_thread());
    active_ = threads;
    random_.seed(order.seed);
    shared_.assign((launch.shared_bytes + 15) / 16, {});
    thread_order_ = ordered(order.threads, threads);
    for (std::size_t block : ordered(order.blocks, blocks)) run_block(block);
    launch_ = nullptr;
  }

  bool is_in_kernel() const { return current_ != nullptr; }
  Thread& current() { return *current_; }

  std::byte* dynamic_shared() { return reinterpret_cast<std::byte*>(shared_.data()); }
  std::size_t dynamic_shared_bytes() const { return launch_ ? launch_->shared_bytes : 0; }
  std::uint64_t block_number() const { return block_number_; }

  void barrier(Site site) {
    Thread& thread = current();
    thread.site = site;
    thread.state = State::at_barrier;
    wait(thread);
  }

  const std::uint64_t* exchange(unsigned mask, std::uint64_t mine, Site site) {
    Thread& thread = current();
    if (!(mask >> lane() & 1)) fault(fmt::format("a warp operation at {} whose mask leaves out the caller", at(site)));
    thread.site = site;
    thread.exchange.mask = mask;
    thread.exchange.mine = mine;
    thread.state = State::at_exchange;
    wait(thread);
    return thread.exchange.all.data();
  }

  [[noreturn]] void fault(const std::string& what) {
    fault_ = what;
    Thread& thread = current();
    for (;;) wait(thread);  // the scheduler gives up on the launch and does not come back
  }

 private:
  std::unique_ptr<Thread> make_thread() {
    auto made = std::make_unique<Thread>();
    context::protected_fixedsize_stack allocator(stack_bytes);
    made->stack = allocator.allocate();
    Thread* thread = made.get();
    made->fiber =
        context::fiber(std::allocator_arg, context::preallocated(made->stack.sp, made->stack.size, made->stack),
                       allocator, [this, thread](context::fiber&& scheduler) {
                         thread->into.arrive();
                         thread->scheduler = std::move(scheduler);
                         for (;;) {
                           run_body();
                           thread->state = State::ended;
                           wait(*thread);
                         }
                         return context::fiber();
                       });
    return made;
  }

  void run_body() {
    try {
      launch_->body();
    } catch (const std::exception& error) {
      fault_ = error.what();
    }
  }

  /// From a thread to the scheduler, and back when the thread's turn comes.
  void wait(Thread& thread) {
    thread.into.return_to_other();
    thread.scheduler = std::move(thread.scheduler).resume();
    thread.into.arrive();
  }

  /// From the scheduler to a thread, until it waits or ends.
  void go_on(Thread& thread) {
    current_ = &thread;
    running = &thread.place;
    thread.out_of.leave(static_cast<std::byte*>(thread.stack.sp) - thread.stack.size, thread.stack.size);
    thread.fiber = std::move(thread.fiber).resume();
    thread.out_of.arrive();
    current_ = nullptr;
    running = nullptr;
    if (!fault_.empty()) give_up(thread, std::exchange(fault_, {}));
  }

  /// The fibers are left as they are, with what they hold: a fault may have stopped one in the middle of anything.
  [[noreturn]] void give_up(const Thread& thread, const std::string& what) {
    std::string message = fmt::format("kernel '{}', block {}, thread {}: {}", launch_->name, words(thread.place.block),
                                      words(thread.place.thread), what);
    for (auto& left : threads_) {
#if defined(__SANITIZE_ADDRESS__)
      // Memory to which only the stack of an abandoned fiber points must not be reported as a leak.
      __lsan_register_root_region(static_cast<std::byte*>(left->stack.sp) - left->stack.size, left->stack.size);
#endif
      abandoned_.push_back(std::move(left));
    }
    threads_.clear();
    launch_ = nullptr;
    throw Error(message);
  }
  static std::string words(uint3 at) { return fmt::format("({}, {}, {})", at.x, at.y, at.z); }

  void run_block(std::size_t block) {
    const dim3 &grid = launch_->grid, &size = launch_->block;
    ++block_number_;
    if (!shared_.empty()) std::memset(static_cast<void*>(shared_.data()), 0xff, shared_.size() * sizeof shared_[0]);
    for (std::size_t t = 0; t < active_; ++t) {
      auto at = static_cast<unsigned>(t);
      auto b = static_cast<unsigned>(block);
      Thread& thread = *threads_[t];
      thread.place = {{at % size.x, at / size.x % size.y, at / size.x / size.y},
                      {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y},
                      size,
                      grid};
      thread.state = State::ready;
      thread.open_copies.clear();
      thread.copy_groups.clear();
    }
    while (run_ready_threads()) {
    }
  }

  /// One turn for each thread that is ready, then what they wait for. False when all have ended.
  bool run_ready_threads() {
    bool ran = false;
    if (order_.threads == Order::Of::shuffled) thread_order_ = ordered(order_.threads, active_);
    for (std::size_t t : thread_order_) {
      Thread& thread = *threads_[t];
      if (thread.state != State::ready) continue;
      ran = true;
      go_on(thread);
    }
    if (!ran) return finish_or_refuse();
    for (std::size_t first = 0; first < active_; first += warp_lanes) complete_exchanges(first);
    complete_barrier();
    return true;
  }

  std::size_t count(State state) const {
    std::size_t found = 0;
    for (std::size_t t = 0; t < active_; ++t) found += threads_[t]->state == state;
    return found;
  }
  const Thread* first_in(State state) const {
    for (std::size_t t = 0; t < active_; ++t)
      if (threads_[t]->state == state) return threads_[t].get();
    return nullptr;
  }

  /// Nothing can go on: either all have ended, or the threads that wait do so in vain.
  bool finish_or_refuse() {
    if (count(State::ended) == active_) return false;
    if (const Thread* waiting = first_in(State::at_exchange))
      give_up(*waiting,
              fmt::format("waits at the warp operation at {} for lanes that do not come to it (mask {:#010x})",
                          at(waiting->site), waiting->exchange.mask));
    const Thread* waiting = first_in(State::at_barrier);
    give_up(*waiting, fmt::format("{} of {} threads wait at the barrier at {}, the others have ended without it",
                                  count(State::at_barrier), active_, at(waiting->site)));
  }

  void complete_barrier() {
    if (count(State::at_barrier) != active_) return;
    const Site site = threads_[0]->site;
    for (std::size_t t = 1; t < active_; ++t)
      if (threads_[t]->site.line != site.line || std::strcmp(threads_[t]->site.file, site.file) != 0)
        give_up(*threads_[t], fmt::format("waits at the barrier at {}, thread 0 at another one, at {}",
                                          at(threads_[t]->site), at(site)));
    for (std::size_t t = 0; t < active_; ++t) threads_[t]->state = State::ready;
  }

  /// Lets lanes go on whose whole mask has come: the lanes of the warp that begins at thread `first`.
  void complete_exchanges(std::size_t first) {
    std::size_t lanes = std::min<std::size_t>(warp_lanes, active_ - first);
    for (std::size_t k = 0; k < lanes; ++k) {
      Thread& leader = *threads_[first + k];
      if (leader.state != State::at_exchange) continue;
      bool complete = true;
      std::array<std::uint64_t, warp_lanes> all;
      all.fill(~std::uint64_t{0});
      for (std::size_t j = 0; j < lanes; ++j) {
        const Thread& other = *threads_[first + j];
        if (!(leader.exchange.mask >> j & 1) || other.state == State::ended) continue;
        complete &= other.state == State::at_exchange && other.site.line == leader.site.line &&
                    other.exchange.mask == leader.exchange.mask;
        all[j] = other.exchange.mine;
      }
      if (!complete) continue;
      for (std::size_t j = 0; j < lanes; ++j) {
        Thread& other = *threads_[first + j];
        if (!(leader.exchange.mask >> j & 1) || other.state == State::ended) continue;
        other.exchange.all = all;
        other.state = State::ready;
      }
    }
  }

  std::vector<std::size_t> ordered(Order::Of of, std::size_t n) {
    std::vector<std::size_t> order(n);
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (of == Order::Of::backward) std::reverse(order.begin(), order.end());
    if (of == Order::Of::shuffled) std::shuffle(order.begin(), order.end(), random_);
    return order;
  }

  const Launch* launch_ = nullptr;
  Order order_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<std::unique_ptr<Thread>> abandoned_;  ///< of launches with a fault
  std::size_t active_ = 0;                          ///< threads of a block of this launch
  std::vector<std::size_t> thread_order_;
  Thread* current_ = nullptr;
  std::string fault_;
  struct alignas(16) Unit {
    std::byte bytes[16];
  };
  std::vector<Unit> shared_;
  std::uint64_t block_number_ = 0;
  std::mt19937_64 random_;
};

/// Never destroyed: its fibers may hold what cannot be unwound.
Machine& machine() {
  static auto* made = new Machine;
  return *made;
}

}  // namespace

void run_grid(const Launch& launch, Order order) { machine().run(launch, order); }
bool in_kernel() { return machine().is_in_kernel(); }
void report_fault(const std::string& what) { machine().fault(what); }
void report_misaligned(const void* address, std::size_t bytes) {
  report_fault(fmt::format("an access to {} bytes at an address that lies {} bytes behind a multiple of {}", bytes,
                           reinterpret_cast<std::uintptr_t>(address) % bytes, bytes));
}
void block_barrier(Site site) { machine().barrier(site); }
const std::uint64_t* exchange(unsigned mask, std::uint64_t mine, Site site) {
  return machine().exchange(mask, mine, site);
}

void start_copy(void* to, const void* from, std::size_t bytes) {
  for (const void* address : {static_cast<const void*>(to), from})
    if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) report_misaligned(address, bytes);
  machine().current().open_copies.push_back({to, from, bytes});
}
void close_copy_group() {
  Thread& thread = machine().current();
  thread.copy_groups.push_back(std::exchange(thread.open_copies, {}));
}
void wait_for_copies(std::size_t groups) {
  Thread& thread = machine().current();
  for (; thread.copy_groups.size() > groups; thread.copy_groups.pop_front())
    for (const Copy& copy : thread.copy_groups.front()) std::memcpy(copy.to, copy.from, copy.bytes);
}

std::byte* dynamic_shared() { return machine().dynamic_shared(); }
std::size_t dynamic_shared_bytes() { return machine().dynamic_shared_bytes(); }
std::uint64_t block_number() { return machine().block_number(); }

}  // namespace fovea::cuda_on_host
