#include "base/memory_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <fstream>
#include <limits>

namespace spdl {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

// The number in a file; none in one that is missing, and in one that says `max`.
std::size_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::size_t number = 0;
  return file >> number && number > 0 ? number : kNoLimit;
}

// Every group limits those in it. In a container the path may be one of the host's, and only its root be visible.
template <class Read>
std::size_t least_of(std::string group, Read read) {
  std::size_t least = read(group);
  while (!group.empty()) {
    const std::size_t slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
    least = std::min(least, read(group));
  }
  return least;
}

bool has_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

// Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst; cgroups(7) for /proc/self/cgroup.
std::size_t limit_of_groups(const std::string& root) {
  const std::string mounts = root + "/sys/fs/cgroup";
  std::size_t least = kNoLimit;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      for (const std::string& mount : {mounts, mounts + "/unified"}) {
        least = std::min(least, least_of(group, [&](const std::string& each) {
                           const std::string folder = mount + each;
                           return std::min(number_in(folder + "/memory.max"), number_in(folder + "/memory.high"));
                         }));
      }
    } else if (has_word(controllers, "memory")) {
      least = std::min(least, least_of(group, [&](const std::string& each) {
                         return number_in(mounts + "/memory" + each + "/memory.limit_in_bytes");
                       }));
    }
  }
  return least;
}

std::size_t limit_of_machine() noexcept {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : kNoLimit;
}

std::size_t limit_of_addresses() noexcept {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur > 0
             ? static_cast<std::size_t>(limit.rlim_cur)
             : kNoLimit;
}

}  // namespace

std::size_t memory_limit(const std::string& root) noexcept {
  std::size_t least = std::min(limit_of_machine(), limit_of_addresses());
  try {
    least = std::min(least, limit_of_groups(root));
  } catch (const std::exception&) {
    return least;  // no memory for the words, or files that cannot be read: what is known will do
  }
  return least;
}

}  // namespace spdl
