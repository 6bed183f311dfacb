#pragma once
// A file in memory of which only some pages are there, shared by processes: one stores pages and drops them, all read.
//
// Its content is a sparse file; a second one has a byte for each page that tells whether it is there. A reader needs no
// system call to find out, and never gets the zeros of a page that is dropped while it reads. Thread-safe, but store()
// and drop() of the same pages must not run at the same time.

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/buffer.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace codecfs {

class SharedMirror {
 public:
  static constexpr uint64_t kPage = 4096;  // bytes

  /// A file of `size` bytes without pages. ENOMEM, EFBIG.
  static Result<SharedMirror> make(uint64_t size);
  struct Descriptors {
    UniqueFd content;
    UniqueFd presence;
  };
  /// For attach() in another process, which can only read. EMFILE.
  [[nodiscard]] Result<Descriptors> for_reader() const;
  /// The mirror of which another process has these descriptors. ENOMEM.
  static Result<SharedMirror> attach(Descriptors descriptors);

  SharedMirror(SharedMirror&& other) noexcept;
  SharedMirror& operator=(SharedMirror&&) = delete;
  ~SharedMirror();

  [[nodiscard]] uint64_t size() const { return size_; }
  /// The sparse file: pages that are not there read as zeros.
  [[nodiscard]] const UniqueFd& content() const { return content_; }
  /// Whether all bytes of this range of the file are there.
  [[nodiscard]] bool has(uint64_t offset, uint64_t size) const;
  /// Reads bytes of the file, all of which must be in it. False if some are not there. EIO.
  Result<bool> read(uint64_t offset, MutableBytes to) const;

  /// `offset`: of a page; `bytes`: whole pages, but for the last of the file. ENOMEM: none of them is there.
  Result<> store(uint64_t offset, Bytes bytes);
  /// Frees whole pages.
  void drop(uint64_t offset, uint64_t size);

 private:
  SharedMirror(UniqueFd content, UniqueFd presence, uint64_t size) noexcept
      : content_(std::move(content)), presence_fd_(std::move(presence)), size_(size) {}
  Result<> map(int protection);

  UniqueFd content_;
  UniqueFd presence_fd_;
  uint64_t size_ = 0;
  // The second file, mapped: a counter of drops, which precede the end of their pages; after a page, a byte for each.
  std::atomic<uint64_t>* drops_ = nullptr;
  std::atomic<uint8_t>* pages_ = nullptr;  // 1: it is there
};

}  // namespace codecfs
