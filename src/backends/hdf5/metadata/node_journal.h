#pragma once
// What the numbers of an ObjectTree mean, in a file that outlives the process, so that the next process that opens the
// same HDF5 file uses the same numbers. Each record has a checksum: a record that was not written completely ends the
// journal. Not thread-safe.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backends/api/object.h"
#include "base/unique_fd.h"

namespace codecfs::hdf5 {

struct TreeNode {
  uint64_t address = 0;
  ObjectId parent = 0;
  std::string name;  // of the link
  bool group = false;
  bool gone = false;
};

class NodeJournal {
 public:
  /// `fd`: a file in memory, for reading and writing; empty at the beginning.
  explicit NodeJournal(UniqueFd fd) : fd_(std::move(fd)) {}

  /// All records, oldest first; later ones replace earlier ones of the same number. To be called before note().
  std::vector<std::pair<ObjectId, TreeNode>> read();
  /// Adds a record, which write() stores.
  void note(ObjectId number, const TreeNode& node);
  void write();
  /// Bytes that are stored. read() ignores what was stored beyond `end` bytes after truncate(end).
  [[nodiscard]] uint64_t end() const { return end_; }
  void truncate(uint64_t end);

 private:
  UniqueFd fd_;
  uint64_t end_ = 0;  // bytes
  std::string pending_;
};

}  // namespace codecfs::hdf5
