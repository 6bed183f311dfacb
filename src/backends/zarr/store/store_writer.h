#pragma once
// Changes to the files and directories of a store, each atomic: whoever reads, also after a kill or a power cut, finds
// the old file or the new one, never part of one; and likewise a directory with all that is in it. How that is done is
// for the kind of store to know: directory_writer.h, zip_writer.h.
//
// Safe from all threads, also for changes of the same chunk at once: one of them is the last. But while a directory is
// moved or removed nobody may work on what is in it, or commit.

#include <sys/stat.h>
#include <sys/types.h>

#include <memory>
#include <string>

#include "base/buffer.h"
#include "base/result.h"

namespace codecfs::zarr {

/// A directory that is not in the store: it is being built, or was removed. What it holds at the end is deleted.
class NewDirectory {
 public:
  virtual ~NewDirectory() = default;

  /// A new file with this content. `name` with slashes lies deeper: directories are made as needed. Safe from many
  /// threads.
  virtual Result<> write(const std::string& name, Bytes bytes, mode_t mode) = 0;
  /// A directory, also where it is there.
  virtual Result<> make_directory(const std::string& name, mode_t mode) = 0;
  /// The directory in which it is to have its place, as Store::stat() tells of it.
  [[nodiscard]] virtual Result<struct stat> parent_status() const = 0;
  /// Gives it its name, which must be free (EEXIST), with all that is in it at once. Durable after a commit.
  virtual Result<> place(const std::string& name) = 0;
  /// Puts it into the place of a directory, in one step; it holds what that held then. EOPNOTSUPP where the filesystem
  /// cannot.
  virtual Result<> exchange(const std::string& name) = 0;
};

class StoreWriter {
 public:
  virtual ~StoreWriter() = default;

  /// Takes the right to write: EBUSY where another program has the store open. The others take it as well.
  virtual Result<> begin() = 0;
  /// Makes `name` in the directory `array` (a name with slashes lies deeper; directories are made as needed, with the
  /// array's mode) hold `bytes`. `mode`: permissions of the file. EBUSY; ENOSPC, EIO and all else that the system says,
  /// with the old file as it was and nothing new left behind.
  virtual Result<> write(const std::string& array, const std::string& name, Bytes bytes, mode_t mode) = 0;
  /// No error where there is no such file.
  virtual Result<> remove(const std::string& array, const std::string& name) = 0;

  /// A directory to be put into the place `name` of the directory `parent`. note_change(parent) is to follow.
  virtual Result<std::unique_ptr<NewDirectory>> new_directory(const std::string& parent, const std::string& name,
                                                              mode_t mode) = 0;
  /// The same for the place of the store itself, by exchange_store(). ESTALE.
  virtual Result<std::unique_ptr<NewDirectory>> new_store(mode_t mode) = 0;
  /// Nobody may use the store meanwhile.
  virtual Result<> exchange_store(NewDirectory& directory) = 0;
  /// A directory with everything in it. It is gone when this returns, and deleted when the result dies, which may take
  /// long. After an error it is as it was.
  virtual Result<std::unique_ptr<NewDirectory>> remove_directory(const std::string& parent,
                                                                 const std::string& name) = 0;
  /// Moves a directory; never replaces (EEXIST).
  virtual Result<> move(const std::string& from_parent, const std::string& from, const std::string& to_parent,
                        const std::string& to) = 0;
  /// Removes what a kill left of directories that were to take the place of the store's own.
  virtual void remove_leftovers_beside() = 0;
  /// The names in a directory were changed: the next commit makes them durable.
  virtual void note_change(const std::string& directory) = 0;
  /// What was changed in a directory before becomes durable no later than what is changed after.
  virtual Result<> order(const std::string& directory) = 0;
  /// The same of all that was changed.
  virtual Result<> order() = 0;

  /// Makes durable what was there when the store was opened: changes of a program that was killed may be in the page
  /// cache alone. Only once; the first commit with changes does it too.
  virtual Result<> sync_inherited() = 0;
  /// What was changed before is durable when this returns. After an error the next one tries the same again.
  virtual Result<> commit() = 0;
  /// The same where nobody waits for it. False: it would cost too much for that, and was not done.
  virtual Result<bool> commit_at_interval() = 0;
  /// No change follows: others may write.
  virtual void end() = 0;
};

}  // namespace codecfs::zarr
