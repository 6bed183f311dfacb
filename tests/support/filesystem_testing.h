#pragma once
// A mounted filesystem without FUSE: a Filesystem over a MemorySource, with what it tells the kernel.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fs/filesystem.h"
#include "model/json.h"
#include "support/memory_source.h"
#include "support/recording_invalidator.h"

namespace codecfs::fs {

/// The tree of its source:
///   /g/      with the attribute title "t"
///   /g/deep  8 bytes in chunks of 4, deflate; chunk 0 "deep"
///   /v       8 bytes in chunks of 4, no filter; chunk 0 "abcd", chunk 1 absent
///   /link -> g/deep
class FilesystemTest : public testing::Test {
 protected:
  using Kernel = RecordingInvalidator;

  FilesystemTest() : owned_(std::make_unique<MemorySource>()), source_(owned_.get()) {
    options_.read_only = false;
    options_.write_back.commit = std::chrono::seconds(3600);
    options_.write_back.encoders = 1;
    source_->add_group("/g");
    const Attribute title{"title", Json("t")};
    EXPECT_TRUE(source_->set_attributes(source_->object("/g"), std::span(&title, 1), {}));
    source_->add_variable("/g/deep", text_variable({8}, {4}, {deflate(1)}));
    source_->put("/g/deep", 0, "deep");
    source_->add_variable("/v", text_variable({8}, {4}));
    source_->put("/v", 0, "abcd");
    source_->add_link("/link", "g/deep");
  }

  /// Mounted at the first call, with options_.
  Filesystem& fs() {
    if (fs_ == nullptr) {
      fs_ = std::make_unique<Filesystem>(std::move(owned_), options_);
      fs_->set_invalidator(kernel_);
    }
    return *fs_;
  }
  MountContext& mount() { return fs().context(); }

  Ino root(View view = View::decoded) {
    return view == mount().tree.nodes.shown() ? kRootIno : mount().tree.nodes.view_entry(view).ino();
  }
  /// Looks up each name of a path ("/g/deep/0", "" for the root).
  Result<struct stat> find(std::string_view path, View view = View::decoded) {
    CODECFS_ASSIGN(struct stat at, fs().names().attributes(root(view)));
    while (!path.empty()) {
      path.remove_prefix(1);
      const size_t end = std::min(path.find('/'), path.size());
      CODECFS_ASSIGN(at, fs().names().lookup(at.st_ino, path.substr(0, end)));
      path.remove_prefix(end);
    }
    return at;
  }
  /// The errno of an error; 0 for success.
  template <class T>
  static int error_of(const Result<T>& result) {
    return result ? 0 : result.error().code;
  }
  Ino ino(std::string_view path, View view = View::decoded) {
    const Result<struct stat> found = find(path, view);
    EXPECT_TRUE(found) << path << ": " << (found ? "" : found.error().reason);
    return found ? found->st_ino : 0;
  }
  const Node& node(std::string_view path, View view = View::decoded) {
    const Result<Place> place = mount().tree.nodes.at(ino(path, view));
    EXPECT_TRUE(place) << path;
    return *place->node;
  }
  ChunkPlace chunk_place(std::string_view variable, uint64_t number) {
    Result<ChunkPlace> place = mount().chunk_place(node(variable), number);
    EXPECT_TRUE(place);
    return *place;
  }

  static std::string read(FileHandle& file, uint64_t offset = 0, size_t size = 1 << 20) {
    const Result<Slice> slice = file.read(offset, size);
    return slice ? text_of(slice->bytes) : fmt::format("error {}", slice.error().code);
  }
  /// The content of a file, or "error ERRNO".
  std::string read(std::string_view path, View view = View::decoded) {
    const Result<struct stat> found = find(path, view);
    if (!found) return fmt::format("error {}", found.error().code);
    const auto file = fs().files().open(found->st_ino, false, false);
    if (!file) return fmt::format("error {}", file.error().code);
    std::string content = read(**file);
    (*file)->close();
    return content;
  }
  static Result<size_t> write(FileHandle& file, uint64_t offset, std::string_view text) {
    return file.write(offset, bytes_of(text), nullptr, {});
  }
  /// As a shell's redirection: creates or truncates, writes and closes.
  Result<> write_file(std::string_view path, std::string_view text, View view = View::decoded) {
    const size_t slash = path.rfind('/');
    CODECFS_ASSIGN(const struct stat directory, find(path.substr(0, slash), view));
    std::unique_ptr<FileHandle> file;
    const Result<struct stat> found = find(path, view);
    if (found) {
      CODECFS_ASSIGN(file, fs().files().open(found->st_ino, true, true));
    } else {
      CODECFS_ASSIGN(FileOpener::Created created,
                     fs().files().create(directory.st_ino, path.substr(slash + 1), 0600, O_CREAT | O_TRUNC));
      file = std::move(created.file);
    }
    CODECFS_TRY(write(*file, 0, text));
    const Result<> flushed = file->flush();
    file->close();
    return flushed;
  }
  std::vector<std::string> list(std::string_view path, View view = View::decoded) {
    const auto directory = fs().listing().open(ino(path, view));
    if (!directory) return {fmt::format("error {}", directory.error().code)};
    std::vector<std::string> names;
    EXPECT_TRUE(fs().listing().read(**directory, 2, [&](const DirectoryItem& item) {
      names.push_back(item.name);
      return true;
    }));
    return names;
  }

  std::unique_ptr<MemorySource> owned_;  // until it is mounted
  MemorySource* const source_;
  FilesystemOptions options_;
  RecordingInvalidator kernel_;

 private:
  std::unique_ptr<Filesystem> fs_;
};

/// The components that Filesystem does not hand out, over its context.
struct Components {
  explicit Components(MountContext& mount)
      : rules(mount),
        forms(mount, rules),
        notifier(mount, forms),
        coherence(mount, forms, notifier),
        filters(mount, rules, forms, notifier),
        inodes(mount),
        encoded(mount, forms, coherence, inodes, filters),
        prefetcher(mount, encoded),
        blocks(mount, 1 << 20),
        arrays(mount, inodes, filters, notifier, prefetcher, blocks),
        chunk_files(mount, coherence, inodes, encoded, filters, notifier),
        metadata(mount, forms, coherence, inodes, arrays),
        editor(mount, forms, coherence, filters, notifier, chunk_files),
        policy(mount),
        read_ahead(mount.chunks.read_ahead) {}
  ~Components() { read_ahead.stop(); }  // its threads call the prefetcher
  Components(const Components&) = delete;
  Components& operator=(const Components&) = delete;

  MountRules rules;
  EncodedForms forms;
  ChangeNotifier notifier;
  CoherenceMonitor coherence;
  FilterControl filters;
  InodeAttributes inodes;
  EncodedView encoded;
  Prefetcher prefetcher;
  ArrayBlocks blocks;
  ArrayView arrays;
  ChunkFiles chunk_files;
  MetadataView metadata;
  MetadataEditor editor;
  NamePolicy policy;
  ReadAhead& read_ahead;
};

}  // namespace codecfs::fs
