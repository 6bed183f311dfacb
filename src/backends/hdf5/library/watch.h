#pragma once
// A Watch is asked before libhdf5 accesses a part of a file for the first time. libhdf5 may crash on damaged metadata
// or loop forever (1.10: hdf5 issues 1707, 5375), which would end the whole daemon.
//
// This base class permits everything. A Scout (scout.h) lets another process perform the access first; in that process
// a third implementation records which object is being accessed, so that the cause of a crash is known.
//
// All calls under a LibraryLock. An error is EIO with the reason why libhdf5 must not access the object, and is
// permanent.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::hdf5 {

class Watch {
 public:
  Watch() = default;
  virtual ~Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Opening the object at this address, reading its metadata, and its attributes if they are few.
  virtual Result<> object(uint64_t) { return {}; }
  /// Its attributes, stored compactly or densely.
  virtual Result<> attributes(uint64_t) { return {}; }
  /// The header only, as part of one of the following operations.
  virtual Result<> header(uint64_t) { return {}; }
  /// The links of a group; the same with the headers of their targets; a single link, by its file name.
  virtual Result<> links(uint64_t) { return {}; }
  virtual Result<> list(uint64_t) { return {}; }
  virtual Result<> find(uint64_t, std::string_view) { return {}; }
  /// Walks through the whole file: to find the paths of objects with several links, and to read netCDF's dimension ids.
  /// They skip objects that are known to be damaged.
  virtual Result<> places() { return {}; }
  virtual Result<> numbering() { return {}; }
  /// libhdf5's search for the name of an object.
  virtual Result<> name(uint64_t) { return {}; }
  /// The chunk index of a dataset: the lookup of one chunk, and the whole index.
  virtual Result<> way_to(uint64_t, uint64_t) { return {}; }
  virtual Result<> index(uint64_t) { return {}; }
  /// The numbers of its stored chunks (native uint64_t). None: the caller must list them itself.
  virtual Result<std::optional<Buffer>> stored_chunks(uint64_t) { return std::nullopt; }
  /// A chunk, read and decoded by libhdf5 (`name` for messages, at least `size` bytes). None: the caller must read it
  /// itself.
  virtual Result<std::optional<Buffer>> chunk(uint64_t, uint64_t, const std::string&, uint64_t) { return std::nullopt; }

  /// The file is about to be written: from now on other processes may see an older state of it.
  virtual void writing() {}
  /// Called before the first change of objects, links or the source file: checks everything that was not checked yet.
  /// Afterwards everything is permitted except for what is known to be damaged.
  virtual Result<> check_all() { return {}; }
};

}  // namespace codecfs::hdf5
