#pragma once
// Loading a library runs its code, and a bad one takes the process with it. So a child process goes first.

#include <chrono>
#include <span>
#include <string>
#include <vector>

namespace codecfs::filters {

/// Loads and asks each library in a child process, and runs the initializers of its codecs there. For each path: empty
/// where the child lived through it (whatever the library said), else what happened ("killed by signal 11 ..."). One
/// child does for all of them as long as none kills it. Where no child can be made, all are taken as good.
std::vector<std::string> probe_plugins(std::span<const std::string> paths,
                                       std::chrono::milliseconds limit = std::chrono::seconds(10));

}  // namespace codecfs::filters
