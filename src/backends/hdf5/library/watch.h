#pragma once
// What is asked before libhdf5 looks at something of a file that it has not looked at yet. It crashes on damaged
// metadata, or goes round in it for ever (1.10: hdf5 issues 1707, 5375), and nobody can take that back in the process
// in which it happens.
//
// A Watch as it is here allows everything. A Scout (scout.h) has another process look first. In that process a third
// one notes what is being looked at, so that it is known what it died of.
//
// All calls under a LibraryLock. An error is EIO with the reason why libhdf5 is not to look at it, and stays.

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

  /// Opening the object at this address, its facts, and its attributes where they are not many.
  virtual Result<> object(uint64_t) { return {}; }
  /// Its attributes where they are.
  virtual Result<> attributes(uint64_t) { return {}; }
  /// Its header alone, in the course of one of the following.
  virtual Result<> header(uint64_t) { return {}; }
  /// The links of a group; the same with the headers of what they lead to; one of them, by its file name.
  virtual Result<> links(uint64_t) { return {}; }
  virtual Result<> list(uint64_t) { return {}; }
  virtual Result<> find(uint64_t, std::string_view) { return {}; }
  /// The walks through the whole file: where objects with several links stand, and netCDF's numbers of dimensions. What
  /// is known to be damaged is left out in them.
  virtual Result<> places() { return {}; }
  virtual Result<> numbering() { return {}; }
  /// libhdf5's search for a name of an object.
  virtual Result<> name(uint64_t) { return {}; }
  /// The index of a dataset's chunks: the way to one of them, and all of it.
  virtual Result<> way_to(uint64_t, uint64_t) { return {}; }
  virtual Result<> index(uint64_t) { return {}; }
  /// The numbers of its stored chunks (uint64_t of the machine). None: the caller finds out.
  virtual Result<std::optional<Buffer>> stored_chunks(uint64_t) { return std::nullopt; }
  /// A chunk as libhdf5 reads and decodes it (`name` for messages, `size` in bytes at least). None: the caller reads.
  virtual Result<std::optional<Buffer>> chunk(uint64_t, uint64_t, const std::string&, uint64_t) { return std::nullopt; }

  /// The file is about to be written: what it holds may not be what others see any more.
  virtual void writing() {}
  /// Objects and links are about to change, or the source: looks at everything that was not looked at. From then on
  /// everything is allowed but what is known to be damaged.
  virtual Result<> settle() { return {}; }
};

}  // namespace codecfs::hdf5
