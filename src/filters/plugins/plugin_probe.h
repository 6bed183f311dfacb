#pragma once
// Loading a library runs its code, and a bad one can crash the process. So a child process loads it first.

#include <chrono>
#include <span>
#include <string>
#include <vector>

namespace codecfs::filters {

/// Loads and queries each library in a child process, and runs the initializers of its codecs there. The result for
/// each path is empty if the child survived, else what happened ("killed by signal 11 ..."). One child tests all
/// libraries, and is replaced after a crash. If fork fails, all libraries count as good.
std::vector<std::string> probe_plugins(std::span<const std::string> paths,
                                       std::chrono::milliseconds limit = std::chrono::seconds(10));

}  // namespace codecfs::filters
