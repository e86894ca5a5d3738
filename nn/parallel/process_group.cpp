#include "nn/parallel/process_group.h"

#include <cstdlib>
#include <optional>

#include <dlfcn.h>

#include "nn/parallel/module.h"
#include "tensor/error.h"

namespace fovea {

namespace {

/// A process that was started alone.
class OneProcess final : public ProcessGroup {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::vector<std::string> gather(std::string_view own) override { return {std::string(own)}; }
  void broadcast(void*, std::size_t) override {}
  void meet() override {}
  int processes_on_own_cores() const override { return 1; }
  std::unique_ptr<PendingSum> all_reduce(SharedSum&) override {
    fail("all_reduce: there is only one process; its sum is its own share");
  }
  std::uint64_t bytes_sent() const override { return 0; }
  void abort(int) override {}
};

std::unique_ptr<ProcessGroup>& joined() {
  static std::unique_ptr<ProcessGroup> group;
  return group;
}

/// A number that the program which started this process put into the environment.
std::optional<int> number_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? std::optional(std::atoi(value)) : std::nullopt;
}

}  // namespace

void* function_of_module(const char* file, const char* function, const char* otherwise) {
  Dl_info here{};
  ::dladdr(reinterpret_cast<const void*>(&function_of_module), &here);
  const std::string library = here.dli_fname ? here.dli_fname : "";
  const std::string module = library.substr(0, library.find_last_of('/') + 1) + file;
  // Open MPI loads parts of itself that look for its symbols among the global ones.
  void* handle = ::dlopen(module.c_str(), RTLD_NOW | RTLD_GLOBAL);
  void* found = handle ? ::dlsym(handle, function) : nullptr;
  if (!found) {
    const char* reason = ::dlerror();
    fail("{} ({})", otherwise, reason ? reason : "unknown reason");
  }
  return found;
}

ProcessGroup& processes() {
  static OneProcess alone;
  return joined() ? *joined() : static_cast<ProcessGroup&>(alone);
}

void start_processes() {
  // The first is set by Open MPI's mpirun, the second by schedulers that start processes with PMIx.
  const std::optional<int> size = number_of("OMPI_COMM_WORLD_SIZE");
  const bool is_started_by_another = size ? *size > 1 : number_of("PMIX_RANK").has_value();
  if (joined() || !is_started_by_another) return;
  auto* start = reinterpret_cast<StartMpi*>(
      function_of_module(mpi_module_file, mpi_start_name,
                         "this is one of several processes that mpirun started, but fovea was built without MPI; "
                         "install libopenmpi-dev and openmpi-bin, and build with -Dmpi=enabled (experiments/setup "
                         "--mpi does both)"));
  joined().reset(start());
  if (joined()->size() == 1) joined().reset();
}

void finish_processes() {
  if (joined()) joined()->meet();
  joined().reset();
}

void abort_processes(int status) {
  if (joined()) joined()->abort(status);
}

int processes_on_own_cores() { return joined() ? joined()->processes_on_own_cores() : 1; }

int processes_on_this_machine() {
  return joined() ? number_of("OMPI_COMM_WORLD_LOCAL_SIZE").value_or(joined()->size()) : 1;
}

int rank_on_this_machine() { return number_of("OMPI_COMM_WORLD_LOCAL_RANK").value_or(processes().rank()); }

}  // namespace fovea
