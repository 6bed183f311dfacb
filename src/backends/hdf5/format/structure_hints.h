#pragma once
// Guesses which parts of an HDF5 file libhdf5 will read next, from parts that have arrived, so that they can be
// requested before: what an object's header, a heap or a B-tree points at. libhdf5 remains the only interpreter of the
// file: a wrong guess costs requests, nothing else. Damaged and hostile files are harmless.
//
// Followed: superblock, object headers of both versions with their continuations, symbol tables, local and fractal
// heaps, B-trees of both versions. The nodes of a chunk index are followed only where they are few, because a reader of
// one chunk needs one path. Only files with addresses of 8 bytes. Thread-safe.

#include <cstdint>
#include <map>
#include <vector>

#include "base/buffer.h"
#include "base/mutex.h"
#include "remote/range_plan.h"

namespace codecfs::hdf5 {

class StructureHints {
 public:
  /// Bytes at this offset of the file have arrived. Each part that they point at is returned once; it may extend beyond
  /// the end of the file. Of a part that is cut, the rest is followed when a later call has all of it. `offset`: 0 for
  /// the first call.
  std::vector<remote::ByteRange> note(uint64_t offset, Bytes bytes);
  /// From now on chunk indexes are followed whatever their size, because all of them will be read. Returns the
  /// nodes from which on they were not followed, whose bytes must be noted again.
  std::vector<remote::ByteRange> follow_indexes();

 private:
  enum class Kind : uint8_t {
    other,         // known by its signature
    header,        // of an object
    continuation,  // of a header
    chunk_tree,    // B-tree of version 1 of a dataset's chunks
  };
  /// A part that was returned, or is about to be.
  struct Part {
    Kind kind = Kind::other;
    uint64_t size = 0;  // bytes, as far as known
    uint64_t context =
        0;  // continuation: flags of its header, or kOldHeader; of heaps and trees: address of the header
    bool has_links = false;  // fractal heap: of a group's links
    uint8_t depth = 0;       // of a node of a tree of version 2
    uint16_t records = 0;    // in a node of a tree of version 2
    bool is_parsed = false;
    bool has_more = false;  // its children were not followed
  };
  /// What the header of a fractal heap says, for its blocks.
  struct Heap {
    uint64_t first_block = 0;    // bytes
    uint64_t width = 0;          // blocks in a row
    uint64_t largest_block = 0;  // bytes, of one that has objects
    uint64_t offset_bytes = 0;   // size of an offset in the heap
    uint64_t rows = 0;           // of its root
    bool has_checksums = false;
    bool is_filtered = false;
    bool has_links = false;
  };
  /// What the header of a B-tree of version 2 says, for its nodes.
  struct Tree {
    uint64_t node = 0;    // bytes
    uint64_t record = 0;  // bytes
    bool of_chunks = false;
  };

  void add(uint64_t address, const Part& part) CODECFS_REQUIRES(mutex_);
  void parse(uint64_t address, Part& part, Bytes bytes) CODECFS_REQUIRES(mutex_);
  void parse_superblock(Bytes bytes) CODECFS_REQUIRES(mutex_);
  void parse_header(Bytes bytes) CODECFS_REQUIRES(mutex_);
  void parse_messages(Bytes bytes, uint64_t context) CODECFS_REQUIRES(mutex_);
  void parse_message(unsigned type, Bytes bytes, uint64_t context) CODECFS_REQUIRES(mutex_);
  /// Returns its size; 0 if there is none.
  size_t parse_link(Bytes bytes) CODECFS_REQUIRES(mutex_);
  void parse_old_tree(Part& part, Bytes bytes) CODECFS_REQUIRES(mutex_);
  void parse_symbols(Bytes bytes) CODECFS_REQUIRES(mutex_);
  void parse_heap(uint64_t address, const Part& part, Bytes bytes) CODECFS_REQUIRES(mutex_);
  void parse_direct_block(const Part& part, Bytes bytes) CODECFS_REQUIRES(mutex_);
  void parse_indirect_block(const Part& part, Bytes bytes) CODECFS_REQUIRES(mutex_);
  void parse_tree(uint64_t address, Bytes bytes) CODECFS_REQUIRES(mutex_);
  void parse_node(const Part& part, Bytes bytes) CODECFS_REQUIRES(mutex_);

  Mutex mutex_;
  bool follows_indexes_ CODECFS_GUARDED_BY(mutex_) = false;
  bool is_usable_ CODECFS_GUARDED_BY(mutex_) = false;
  uint64_t base_ CODECFS_GUARDED_BY(mutex_) = 0;               // of all addresses
  uint64_t total_ CODECFS_GUARDED_BY(mutex_) = 0;              // bytes returned so far
  std::map<uint64_t, Part> parts_ CODECFS_GUARDED_BY(mutex_);  // by offset in the file
  std::map<uint64_t, Heap> heaps_ CODECFS_GUARDED_BY(mutex_);  // by the address of the header
  std::map<uint64_t, Tree> trees_ CODECFS_GUARDED_BY(mutex_);  // by the address of the header
  std::vector<uint64_t> added_ CODECFS_GUARDED_BY(mutex_);     // offsets, since note() began
};

}  // namespace codecfs::hdf5
