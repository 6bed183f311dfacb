#include "fs/context/inode_times.h"

namespace codecfs::fs {

void InodeTimes::set(Ino ino, std::optional<timespec> accessed, std::optional<timespec> modified) {
  times_.update(ino, [&](Times& times) {
    if (accessed) times.accessed = accessed;
    if (modified) times.modified = modified;
  });
}

void InodeTimes::apply(struct stat& status) const {
  const auto times = times_.get(status.st_ino);
  if (times == nullptr) return;
  if (times->accessed) status.st_atim = *times->accessed;
  if (times->modified) status.st_mtim = status.st_ctim = *times->modified;
}

std::optional<InodeTimes::Times> InodeTimes::take(Ino ino) {
  const auto times = times_.take(ino);
  return times == nullptr ? std::nullopt : std::optional(*times);
}

}  // namespace codecfs::fs
