#pragma once
// One file, opened as often as there are threads to read it: libhdf5 reads one object at a time. Thread-safe.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "base/mutex.h"
#include "base/result.h"

namespace codecfs::commands {

using OpenAgain = std::function<Result<std::unique_ptr<Source>>()>;

/// A variable: its path in walk() and its number in one of the sources.
struct Named {
  std::string_view path;
  ObjectId object;
};

class Readers {
  struct Reader {
    Source* source;
    std::unique_ptr<Source> owned;  // null: the first one
    std::vector<ObjectId> objects;
  };

 public:
  /// `variables`: all of `source`, in the order of walk(); the paths must outlive this. Without `open_again` there is
  /// one reader.
  Readers(Source& source, std::span<const Named> variables, OpenAgain open_again);

  class Lease {
   public:
    ~Lease() { readers_.give_back(reader_); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    [[nodiscard]] Source& source() const { return *reader_.source; }
    /// The variables by the numbers of this source.
    [[nodiscard]] std::span<const ObjectId> objects() const { return reader_.objects; }

   private:
    friend class Readers;
    Lease(Readers& readers, Reader& reader) : readers_(readers), reader_(reader) {}
    Readers& readers_;
    Reader& reader_;
  };
  /// A reader that no other thread has, or the first one, if the file cannot be opened once more or is another file
  /// now.
  Lease take();

 private:
  std::unique_ptr<Reader> open();
  void give_back(Reader& reader);

  const std::span<const Named> variables_;
  const OpenAgain open_again_;
  Reader first_;
  Mutex mutex_;
  std::vector<Reader*> free_ CODECFS_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Reader>> opened_ CODECFS_GUARDED_BY(mutex_);
  bool opens_ CODECFS_GUARDED_BY(mutex_);  // further ones
};

}  // namespace codecfs::commands
