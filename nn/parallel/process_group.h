/// The processes that train one model together, and the messages and sums that they exchange.
///
/// A program that is started alone is a group of one process: nothing is sent, and no library of MPI is loaded. Under
/// `mpirun -n 4 PROGRAM ...` the four processes are a group, on one machine or on several.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/error.h"
#include "tensor/tensor.h"

namespace fovea {

/// A tensor that is summed over the processes. It is flat and consists of sections, such as the gradients of several
/// parameters. For some sections a process may have nothing to add, for example the gradient of a parameter that its
/// micro-batch did not use.
struct SharedSum {
  struct Section {
    std::int64_t first = 0, size = 0;  ///< in elements
  };
  std::vector<Section> sections;        ///< they do not overlap
  Tensor own;                           ///< this process's addends, [n]; gaps between sections must be finite
  Tensor total;                         ///< the sums, [n], of the same type and on the same device
  std::vector<std::uint8_t> has_own;    ///< for each section, 1 if this process has an addend
  std::vector<std::uint8_t> has_total;  ///< for each section, 1 if any process had one; if 0, `total` means nothing
};

/// Thrown by a call that waits for a process that has ended or does not answer. The remaining process of the lowest
/// rank throws it at once, the others a moment later, so that one message is printed.
class LostProcess : public Error {
 public:
  using Error::Error;
};

/// A sum over processes that is under way. Its SharedSum must not change before wait() returns.
class PendingSum {
 public:
  virtual ~PendingSum() = default;
  /// Continues the sum as far as possible without waiting, and returns whether it is finished.
  virtual bool progress() = 0;
  /// Waits until the sum is finished. Throws LostProcess as ProcessGroup does.
  virtual void wait() = 0;
};

/// A group of processes that make the same calls in the same order. Every call that waits for another process throws
/// LostProcess if that process has ended, or if it does not answer for FOVEA_PATIENCE seconds (default: 1800).
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const = 0;  ///< number of this process, from 0; process 0 prints and writes files
  virtual int size() const = 0;  ///< number of processes
  bool is_first() const { return rank() == 0; }

  /// Returns the bytes of each process, in the order of ranks, in every process.
  virtual std::vector<std::string> gather(std::string_view own) = 0;
  /// Copies `count` bytes of process 0 into those of the others.
  virtual void broadcast(void* bytes, std::size_t count) = 0;
  /// Waits until all processes have called it, however long that takes.
  virtual void meet() = 0;
  /// Begins to add the shares of all processes to sum.total, section by section. On the CPU the shares are added one
  /// after the other in the order of ranks: the result is bit for bit that of one process that adds them. On GPUs NCCL
  /// chooses the order. `sum` must outlive the result.
  virtual std::unique_ptr<PendingSum> all_reduce(SharedSum& sum) = 0;
  /// The number of processes, this one included, that run on the cores of this machine on which this one may run.
  virtual int processes_on_own_cores() const = 0;
  /// The bytes that this process has sent for sums so far.
  virtual std::uint64_t bytes_sent() const = 0;
  /// Ends all processes at once, with the exit status `status`.
  virtual void abort(int status) = 0;
};

/// The group of this process: that which start_processes() joined, or this process alone.
ProcessGroup& processes();

/// Joins the processes that `mpirun` started with this one. Does nothing if this process was started alone. Throws
/// Error if fovea was built without MPI.
void start_processes();

/// Waits until all processes have called it, and leaves the group, which no process may use afterwards. Throws
/// LostProcess.
void finish_processes();

/// Ends all processes of the group at once, with the exit status `status`. Does nothing in a process that was started
/// alone.
void abort_processes(int status);

/// ProcessGroup::processes_on_own_cores() of the group that was started; 1 without a group.
int processes_on_own_cores();
/// The number of processes of the group that run on this machine, and this one's number among them, from 0. The latter
/// is known before the group is joined.
int processes_on_this_machine();
int rank_on_this_machine();

}  // namespace fovea
