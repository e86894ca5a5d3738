#include "experiments/support/program/become_processes.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include <unistd.h>

#include "nn/parallel/process_group.h"
#include "tensor/error.h"

namespace fovea {

void become_processes(int count, const std::vector<std::string>& arguments) {
  const int running = processes().size();
  require(running == 1 || running == count,
          "--processes {}: mpirun has started {} processes; leave the flag out, or start one process without mpirun",
          count, running);
  if (running > 1) return;
  std::vector<std::string> words{
      "mpirun", "--quiet", "-n", std::to_string(count),
      // More processes than cores are slow, but right. Threads of a process may use any core.
      "--oversubscribe", "--bind-to", "none",
      // After Ctrl-C the processes have this many seconds to finish their update and write a checkpoint.
      "--mca", "odls_base_sigkill_timeout", "60"};
  if (::geteuid() == 0) words.emplace_back("--allow-run-as-root");  // as in containers, where there is no other user
  words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp("mpirun", pointers.data());
  fail(
      "--processes {}: mpirun cannot be started ({}); install openmpi-bin and libopenmpi-dev, and build again "
      "(experiments/setup --mpi does both)",
      count, std::generic_category().message(errno));
}

}  // namespace fovea
