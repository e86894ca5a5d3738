// Processes that mpirun started. Messages go from process to process, without MPI's collective operations: the sums
// then have an order that we choose, and a process that does not answer can be named.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include "nn/parallel/module.h"
#include "tensor/error.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/map.h"
#include "tensor/support/text_reader.h"

namespace fovea {

namespace {

using Clock = std::chrono::steady_clock;

/// Messages between the processes have these tags, and each sum two of those that follow.
enum Tag { size_tag = 1, bytes_tag = 2, broadcast_tag = 3, first_sum_tag = 16 };
constexpr int sum_tags = 8192;  ///< sums that may be under way at a time

constexpr std::chrono::seconds longest_patience = std::chrono::hours(100000);

MPI_Datatype type_of(const Tensor& x) { return x.dtype() == DType::f64 ? MPI_DOUBLE : MPI_FLOAT; }

/// Where a process runs.
struct Peer {
  pid_t process = 0;
  std::string host, cores;  ///< "0-3,8"
};

/// The cores on which this process may run, as a text that is equal for equal sets.
std::string cores_of_this_process() {
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof set, &set);
  std::string text;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) text += fmt::format("{},", core);
  return text;
}

/// Ends this process with a message if MPI does not start or end in time: then another one of the processes that
/// mpirun started does not use MPI, or has died.
class TimeLimit {
 public:
  explicit TimeLimit(unsigned seconds) {
    std::signal(SIGALRM, [](int) {
      constexpr std::string_view message =
          "MPI does not get an answer; have all processes of mpirun started this program, and do they live?\n";
      [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, message.data(), message.size());
      ::_exit(2);
    });
    ::alarm(seconds);
  }
  ~TimeLimit() { ::alarm(0); }
};

/// Messages under way, each to or from one other process.
class Messages {
 public:
  void send(const void* data, std::size_t count, MPI_Datatype type, int to, int tag) {
    MPI_Isend(data, static_cast<int>(count), type, to, tag, MPI_COMM_WORLD, add(to));
  }
  void receive(void* data, std::size_t count, MPI_Datatype type, int from, int tag) {
    MPI_Irecv(data, static_cast<int>(count), type, from, tag, MPI_COMM_WORLD, add(from));
  }
  /// Calls MPI, which continues with the messages, and returns whether all of them have arrived.
  bool progress() {
    int all = 0;
    MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &all, MPI_STATUSES_IGNORE);
    if (all) requests_.clear(), peers_.clear();
    return all != 0;
  }
  /// The processes whose messages are missing.
  std::vector<int> missing() {
    std::vector<int> ranks;
    for (std::size_t k = 0; k < requests_.size(); ++k) {
      int is_done = 0;
      if (requests_[k] != MPI_REQUEST_NULL) MPI_Request_get_status(requests_[k], &is_done, MPI_STATUS_IGNORE);
      if (requests_[k] != MPI_REQUEST_NULL && !is_done) ranks.push_back(peers_[k]);
    }
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    return ranks;
  }

 private:
  MPI_Request* add(int peer) {
    peers_.push_back(peer);
    return &requests_.emplace_back(MPI_REQUEST_NULL);
  }
  std::vector<MPI_Request> requests_;
  std::vector<int> peers_;
};

class MpiGroup;

/// A sum on the CPU. The elements are divided into one piece for each process. A process receives its piece of the
/// numbers of all other processes, adds them up in the order of ranks, and sends the sums to the others.
class OrderedSum final : public PendingSum {
 public:
  OrderedSum(MpiGroup& group, SharedSum& sum, int number);
  bool progress() override;
  void wait() override;

 private:
  struct Piece {
    std::int64_t first, end;
    std::size_t size() const { return static_cast<std::size_t>(end - first); }
  };
  Piece piece(int rank) const;
  const std::byte* at(const Tensor& x, std::int64_t element) const {
    return x.address() + element * static_cast<std::int64_t>(size_of(x.dtype()));
  }
  void add_shares();
  void send_total();

  MpiGroup& group_;
  SharedSum& sum_;
  int tag_;
  Messages shares_, totals_;
  std::vector<std::vector<std::uint8_t>> has_;  ///< for each rank: the sections of which it has a share
  Tensor received_;                             ///< [ranks, size of the own piece]
  enum class Phase { shares, totals, done } phase_ = Phase::shares;
};

class MpiGroup final : public ProcessGroup {
 public:
  MpiGroup() {
    {
      const TimeLimit limit(60);
      int provided = 0;
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    if (const char* patience = std::getenv("FOVEA_PATIENCE")) {
      patience_ = std::chrono::seconds(number<std::int64_t>(patience).value_or(0));
      require(patience_.count() > 0 && patience_ < longest_patience,
              "FOVEA_PATIENCE={}: it must be a number of seconds, from 1 to {}", patience,
              longest_patience.count() - 1);
    }
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    std::vector<Peer> all;
    for (const std::string& one : gather(fmt::format("{} {} {}", ::getpid(), host, cores_of_this_process()))) {
      const std::size_t host_begins = one.find(' ') + 1, cores_begin = one.find(' ', host_begins) + 1;
      all.push_back({static_cast<pid_t>(std::atol(one.c_str())), one.substr(host_begins, cores_begin - 1 - host_begins),
                     one.substr(cores_begin)});
    }
    peers_ = std::move(all);
  }
  ~MpiGroup() override {
    device_sums_.reset();
    const TimeLimit limit(60);  // another process may have died since all have met
    MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::vector<std::string> gather(std::string_view own) override {
    std::vector<std::uint64_t> sizes(static_cast<std::size_t>(size_), own.size());
    Messages messages;
    for_others([&](int other) {
      messages.send(&sizes[static_cast<std::size_t>(rank_)], sizeof sizes[0], MPI_BYTE, other, size_tag);
      messages.receive(&sizes[static_cast<std::size_t>(other)], sizeof sizes[0], MPI_BYTE, other, size_tag);
    });
    wait_for(messages);
    std::vector<std::string> all(sizes.size());
    for (std::size_t k = 0; k < all.size(); ++k) all[k].resize(sizes[k]);
    all[static_cast<std::size_t>(rank_)] = own;
    for_others([&](int other) {
      std::string& to = all[static_cast<std::size_t>(other)];
      send_bytes(messages, own.data(), own.size(), other, bytes_tag);
      receive_bytes(messages, to.data(), to.size(), other, bytes_tag);
    });
    wait_for(messages);
    return all;
  }

  void broadcast(void* bytes, std::size_t count) override {
    Messages messages;
    if (rank_ == 0)
      for_others([&](int other) { send_bytes(messages, bytes, count, other, broadcast_tag); });
    else
      receive_bytes(messages, bytes, count, 0, broadcast_tag);
    wait_for(messages);
  }

  void meet() override {
    const std::chrono::seconds patience = std::exchange(patience_, longest_patience);
    gather("");
    patience_ = patience;
  }

  std::unique_ptr<PendingSum> all_reduce(SharedSum& sum) override {
    if (sum.own.device() == Device::cuda) {
      if (!device_sums_) device_sums_ = start_device_sums(*this);
      bytes_sent_ += sum.own.bytes();
      return std::make_unique<DeviceSum>(*this, *device_sums_, sum);
    }
    return std::make_unique<OrderedSum>(*this, sum, static_cast<int>(sums_++ % sum_tags));
  }
  int processes_on_own_cores() const override {
    const Peer& own = peers_[static_cast<std::size_t>(rank_)];
    return static_cast<int>(std::count_if(peers_.begin(), peers_.end(), [&](const Peer& other) {
      return other.host == own.host && other.cores == own.cores;
    }));
  }
  std::uint64_t bytes_sent() const override { return bytes_sent_; }
  void abort(int status) override { MPI_Abort(MPI_COMM_WORLD, status); }

  void count_sent(std::size_t bytes) { bytes_sent_ += bytes; }

  /// Calls body(rank) for every other process, beginning with the next one, so that not all send to the same at once.
  void for_others(const std::function<void(int other)>& body) const {
    for (int step = 1; step < size_; ++step) body((rank_ + step) % size_);
  }

  /// Calls is_done(), which calls MPI, until it returns true. Between the calls other threads can use the processor.
  /// missing() returns the processes that the wait is for.
  void wait_until(const std::function<bool()>& is_done, const std::function<std::vector<int>()>& missing) const {
    using namespace std::chrono_literals;
    Clock::time_point began = Clock::now(), looked = began;
    for (std::int64_t tries = 0; !is_done(); ++tries) {
      if (tries < 2000) {
        ::sched_yield();
        continue;
      }
      std::this_thread::sleep_for(50us);
      const Clock::time_point now = Clock::now();
      if (now - looked < 100ms) continue;
      if (now - looked > 5s) began += now - looked;  // this process itself was stopped
      looked = now;
      const std::vector<int> late = missing();
      for (int other : late) require_life_of(other);
      if (now - began > patience_ && !late.empty())
        throw LostProcess(fmt::format("process {} has not answered process {} for {} s (FOVEA_PATIENCE); the run stops",
                                      late.front(), rank_, patience_.count()));
    }
  }

 private:
  void wait_for(Messages& messages) const {
    wait_until([&] { return messages.progress(); }, [&] { return messages.missing(); });
  }

  /// Messages of at most 1 GiB, because MPI counts in 32 bits.
  template <class Transfer>
  static void in_parts(std::size_t count, const Transfer& transfer) {
    constexpr std::size_t most = std::size_t{1} << 30;
    for (std::size_t first = 0; first < count; first += most) transfer(first, std::min(most, count - first));
  }
  static void send_bytes(Messages& messages, const void* data, std::size_t count, int to, int tag) {
    in_parts(count, [&](std::size_t first, std::size_t n) {
      messages.send(static_cast<const std::byte*>(data) + first, n, MPI_BYTE, to, tag);
    });
  }
  static void receive_bytes(Messages& messages, void* data, std::size_t count, int from, int tag) {
    in_parts(count, [&](std::size_t first, std::size_t n) {
      messages.receive(static_cast<std::byte*>(data) + first, n, MPI_BYTE, from, tag);
    });
  }

  bool has_ended(int rank) const {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    return peer.host == peers_[static_cast<std::size_t>(rank_)].host && ::kill(peer.process, 0) != 0 && errno == ESRCH;
  }

  /// Throws LostProcess if process `other`, on this machine, has ended. The remaining process of the lowest rank throws
  /// at once and ends the others, which wait two seconds for that, so that the message is printed once.
  void require_life_of(int other) const {
    if (peers_.empty() || !has_ended(other)) return;
    int first_left = 0;
    while (first_left < rank_ && has_ended(first_left)) ++first_left;
    if (first_left != rank_) std::this_thread::sleep_for(std::chrono::seconds(2));
    const Peer& peer = peers_[static_cast<std::size_t>(other)];
    throw LostProcess(fmt::format("process {} of {} (number {} on {}) has ended; the run stops", other, size_,
                                  peer.process, peer.host));
  }

  int rank_ = 0, size_ = 1;
  std::int64_t sums_ = 0;
  std::uint64_t bytes_sent_ = 0;
  std::chrono::seconds patience_{1800};
  std::vector<Peer> peers_;
  std::unique_ptr<DeviceSums> device_sums_;  ///< null before the first sum on GPUs
};

OrderedSum::OrderedSum(MpiGroup& group, SharedSum& sum, int number)
    : group_(group), sum_(sum), tag_(first_sum_tag + 2 * number) {
  const auto size = static_cast<std::size_t>(group.size());
  has_.assign(size, std::vector<std::uint8_t>(sum.sections.size()));
  has_[static_cast<std::size_t>(group.rank())] = sum.has_own;
  const Piece mine = piece(group.rank());
  received_ = Tensor::empty({group.size(), mine.end - mine.first}, sum.own.dtype());
  std::byte* to = received_.mutable_address();
  std::byte* total = sum.total.mutable_address();
  const MPI_Datatype type = type_of(sum.own);
  const std::size_t element = size_of(sum.own.dtype());
  group.for_others([&](int other) {
    const auto k = static_cast<std::size_t>(other);
    const Piece its = piece(other);
    shares_.receive(has_[k].data(), has_[k].size(), MPI_BYTE, other, tag_);
    shares_.receive(to + k * mine.size() * element, mine.size(), type, other, tag_);
    totals_.receive(total + static_cast<std::size_t>(its.first) * element, its.size(), type, other, tag_ + 1);
    shares_.send(sum.has_own.data(), sum.has_own.size(), MPI_BYTE, other, tag_);
    shares_.send(at(sum.own, its.first), its.size(), type, other, tag_);
    group.count_sent(its.size() * element);
  });
}

/// The elements that a process adds: equal pieces, whole cache lines.
OrderedSum::Piece OrderedSum::piece(int rank) const {
  constexpr std::int64_t line = 16;
  const std::int64_t n = sum_.own.elements(), lines = (n + line - 1) / line, size = group_.size();
  return {std::min(n, lines * rank / size * line), std::min(n, lines * (rank + 1) / size * line)};
}

/// total = (((total + share of 0) + share of 1) + ...), for the own piece of every section.
void OrderedSum::add_shares() {
  const Piece mine = piece(group_.rank());
  for (std::size_t s = 0; s < sum_.sections.size(); ++s) {
    const SharedSum::Section& section = sum_.sections[s];
    const std::int64_t first = std::max(section.first, mine.first);
    const std::int64_t end = std::min(section.first + section.size, mine.end);
    bool has_total = sum_.has_total[s] != 0;
    for (int rank = 0; rank < group_.size(); ++rank) {
      if (!has_[static_cast<std::size_t>(rank)][s]) continue;
      if (first < end) {
        const Tensor share = rank == group_.rank()
                                 ? sum_.own.slice(0, first, end)
                                 : received_.select(0, rank).slice(0, first - mine.first, end - mine.first);
        Tensor total = sum_.total.slice(0, first, end);
        has_total ? map_into(total, Add{}, total, share) : total.copy_from(share);
      }
      has_total = true;
    }
    sum_.has_total[s] = has_total;
  }
}

void OrderedSum::send_total() {
  const Piece mine = piece(group_.rank());
  group_.for_others([&](int other) {
    totals_.send(at(sum_.total, mine.first), mine.size(), type_of(sum_.total), other, tag_ + 1);
    group_.count_sent(mine.size() * size_of(sum_.total.dtype()));
  });
}

bool OrderedSum::progress() {
  if (phase_ == Phase::shares && shares_.progress()) {
    add_shares();
    send_total();
    phase_ = Phase::totals;
  }
  if (phase_ == Phase::totals && totals_.progress()) phase_ = Phase::done;
  return phase_ == Phase::done;
}

void OrderedSum::wait() {
  group_.wait_until([&] { return progress(); },
                    [&] { return phase_ == Phase::shares ? shares_.missing() : totals_.missing(); });
}

}  // namespace

extern "C" __attribute__((visibility("default"))) ProcessGroup* fovea_start_mpi() { return new MpiGroup; }

}  // namespace fovea
