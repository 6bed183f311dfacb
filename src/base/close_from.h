#pragma once
// Closes the descriptors that a new process must not keep.

namespace codecfs {

/// Closes all descriptors from `first` on. May be called after fork() in a process of many threads.
void close_from(unsigned first);

/// As close_from(), one by one, as /proc lists them: for Linux before 5.9, which has no call for it.
void close_each_from(unsigned first);

}  // namespace codecfs
