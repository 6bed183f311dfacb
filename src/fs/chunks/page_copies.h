#pragma once
// Copies of the pages that the kernel has of files which are open for reading and writing, and so may be mapped.
//
// The kernel writes a changed page of a mapping back as a whole, with bytes that the mapping never changed. Where the
// same bytes are in another file too (a chunk and the npy view), another program may have written them meanwhile. So
// only the bytes are stored that differ from what the kernel was given.
//
// A copy is exactly what the page held before the mapping changed it, or there is none: then the whole page is stored,
// as before. A copy that is older or newer than the page would hide a change. Pages get their content from READ, from
// a write() of a whole page, and from what is pushed to the kernel, which is not done while a file has writers. The
// first writer makes the kernel drop the pages that it has (no FOPEN_KEEP_CACHE).
//
// Memory is bounded: where the copies take more than the limit, a thread makes the kernel write back and drop the pages
// that were read longest ago, and then drops the copies. Safe from all threads.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "fs/kernel/invalidator.h"
#include "fs/namespace/nodes.h"

namespace codecfs::fs {

/// Which bytes of a request are to be stored: one byte for each, 0xff for those, 0 for the others. Empty: all.
using ByteMask = std::vector<std::byte>;

class PageCopies {
 public:
  static constexpr uint64_t kPage = 4096;                         // bytes
  static constexpr uint64_t kDefaultLimit = uint64_t{128} << 20;  // bytes of copies

  explicit PageCopies(uint64_t limit = kDefaultLimit) : limit_(limit) {}
  ~PageCopies() { stop(); }
  PageCopies(const PageCopies&) = delete;
  PageCopies& operator=(const PageCopies&) = delete;

  /// Copies beyond the limit are dropped with the pages. Before the first writer; `kernel` outlives this.
  void set_invalidator(Invalidator& kernel) { kernel_ = &kernel; }

  /// While it lives copies are kept of an inode.
  class Writer {
   public:
    Writer() = default;
    Writer(PageCopies& copies, Ino ino) : copies_(&copies), ino_(ino), is_first_(copies.add_writer(ino)) {}
    Writer(Writer&& other) noexcept
        : copies_(std::exchange(other.copies_, nullptr)), ino_(other.ino_), is_first_(other.is_first_) {}
    Writer& operator=(Writer&& other) noexcept {
      std::swap(copies_, other.copies_);
      std::swap(ino_, other.ino_);
      std::swap(is_first_, other.is_first_);
      return *this;
    }
    ~Writer() {
      if (copies_ != nullptr) copies_->remove_writer(ino_);
    }
    /// Whether the kernel may have pages of which there are no copies.
    [[nodiscard]] bool is_first() const { return is_first_; }

   private:
    PageCopies* copies_ = nullptr;
    Ino ino_ = 0;
    bool is_first_ = false;
  };

  /// What the kernel is about to get for its page cache as the answer to READ.
  void given(Ino ino, uint64_t offset, Bytes bytes);
  /// What write() has put into the kernel's pages.
  void written(Ino ino, uint64_t offset, Bytes bytes);
  /// The length of the file changes: the kernel changes its pages by itself. No copies until the last writer is gone.
  void give_up(Ino ino);

  /// What the kernel has written back.
  struct WrittenBack {
    ByteMask changed;                // of the bytes
    bool any = true;                 // of them
    std::vector<uint64_t> versions;  // of the pages' copies; 0: none
  };
  WrittenBack compare(Ino ino, uint64_t offset, Bytes bytes);
  /// It is stored. (Where it is not, the kernel drops the pages.)
  void stored(Ino ino, uint64_t offset, Bytes bytes, const WrittenBack& compared);

  /// Bytes of copies there are.
  uint64_t bytes();
  /// No page is dropped by it any more. While requests are still answered, or none will come.
  void stop();

 private:
  struct Key {
    Ino ino = 0;
    uint64_t page = 0;
  };
  struct Page {
    std::vector<std::byte> bytes;  // from the beginning of the page
    uint64_t version = 0;          // changes with the bytes
    std::list<Key>::iterator place;
  };
  struct File {
    unsigned writers = 0;
    bool given_up = false;
    std::unordered_map<uint64_t, Page> pages;
  };

  bool add_writer(Ino ino);
  void remove_writer(Ino ino);
  void put(Ino ino, File& file, uint64_t page, Bytes bytes);
  void erase(File& file, uint64_t page);
  void clear(File& file);
  void run(const std::stop_token& stop);

  const uint64_t limit_;
  Invalidator* kernel_ = nullptr;
  std::atomic<bool> any_{false};  // whether there are writers: read before the mutex is taken
  std::mutex mutex_;              // guards all below
  std::condition_variable_any full_;
  std::unordered_map<Ino, File> files_;
  std::list<Key> order_;  // the copy that was made longest ago first
  uint64_t version_ = 0;
  bool stopped_ = false;
  std::jthread thread_;  // from the first time that the limit is reached
};

/// Copies the bytes of `from` that the mask has to `to`.
void copy_masked(std::byte* to, const std::byte* from, const std::byte* mask, size_t size);

}  // namespace codecfs::fs
