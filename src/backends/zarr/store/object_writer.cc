#include "backends/zarr/store/object_writer.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <new>
#include <random>
#include <utility>

#include "backends/zarr/metadata/metadata_files.h"
#include "base/log.h"
#include "base/parallel.h"
#include "remote/range_plan.h"

namespace codecfs::zarr {
namespace {

constexpr size_t kReads = 8;                                                            // of one object, at a time
constexpr size_t kRemovals = 32;                                                        // at a time
constexpr uint64_t kMaxBytes = uint64_t{5} << 30;                                       // of one PUT
constexpr const char* kKeyFiles[] = {kArrayFile, kGroupFile, kZarr3File, ".nczgroup"};  // that make a group or array

bool is_key_file(const std::string& name) { return std::ranges::find(kKeyFiles, name) != std::ranges::end(kKeyFiles); }

/// Whether a PUT was refused because of its condition.
bool is_refused(const Error& error) { return error.code == EEXIST || error.code == ESTALE; }

std::unexpected<Error> changed(const std::string& key) {
  return fail(EAGAIN, "{}: another program has changed it at the same time", key);
}

std::unexpected<Error> not_atomic(const std::string& key, const char* what) {
  return fail(EOPNOTSUPP, "{}: {}: an object store cannot do that at once, so readers would find a part of it", key,
              what);
}

/// The bytes of the parts that are in files, at most 8 MiB a request.
Result<> read_parts(std::span<const StorePart> parts, MutableBytes content) {
  struct Copied {
    const StorePart* part;
    std::byte* to;
  };
  std::vector<Copied> copied;
  std::vector<remote::ByteRange> ranges;
  std::byte* to = content.data();
  const StoredFile* file = nullptr;
  for (const StorePart& part : parts) {
    if (!part.file) {
      if (part.size > 0) std::memcpy(to, part.bytes.data(), part.size);
    } else if (part.size > 0) {
      file = part.file.get();
      copied.push_back({&part, to});
      ranges.push_back({part.offset, part.size});
    }
    to += part.size;
  }
  if (file == nullptr) return {};
  std::ranges::sort(copied, {}, [](const Copied& one) { return one.part->offset; });
  const auto requests = remote::plan_requests(std::move(ranges));
  return parallel_for(requests.size(), {.threads = kReads}, [&](uint64_t i) -> Result<> {
    const remote::ByteRange& asked = requests[i];
    CODECFS_ASSIGN(const Buffer bytes, file->read(asked.offset, asked.size));
    for (const auto& [part, place] : copied) {
      const uint64_t first = std::max(part->offset, asked.offset);
      const uint64_t end = std::min(part->offset + part->size, asked.end());
      if (first < end) std::memcpy(place + (first - part->offset), bytes.data() + (first - asked.offset), end - first);
    }
    return {};
  });
}

/// Removes the objects by which killed programs have tried the server. A younger one may still be in use.
void remove_abandoned(remote::ObjectClient& client, const std::string& prefix) {
  constexpr int64_t kAbandoned = 3600;  // seconds
  const auto found = client.list(prefix, true, "");
  if (!found) return;
  for (const remote::ListedObject& object : found->objects) {
    if (object.modified == 0 || ::time(nullptr) - object.modified < kAbandoned) continue;
    if (const Result<> removed = client.remove(object.key); !removed)
      log::warning("{} was left behind: {}", object.key, removed.error().reason);
  }
}

}  // namespace

// --- new and removed directories

/// The metadata files of a new group or array.
class ObjectWriter::NewObjects final : public NewDirectory {
 public:
  NewObjects(ObjectWriter& writer, std::string parent) : writer_(writer), parent_(std::move(parent)) {}

  Result<> write(const std::string& name, Bytes bytes, mode_t) override try {
    files_.emplace_back(name, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
    return {};
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, "{}: no memory to make it", name);
  }
  Result<> make_directory(const std::string&, mode_t) override { return {}; }
  [[nodiscard]] Result<struct stat> parent_status() const override {
    CODECFS_ASSIGN(const auto status, writer_.store_.stat(parent_));
    if (!status) return fail(ENOENT, "{}: no longer exists", parent_);
    return *status;
  }

  Result<> place(const std::string& name) override {
    const std::string key = join_key(parent_, name);
    // Chunks that an interrupted removal has left would be those of the new array.
    CODECFS_ASSIGN(const auto left, writer_.store_.objects_below(key));
    if (!left.empty())
      return fail(EEXIST, "{}: there are objects below it ({}): if they are of no group or array, remove them first",
                  key, left.front());
    return put_files(key, true);
  }

  Result<> exchange(const std::string& name) override {
    const std::string key = join_key(parent_, name);
    CODECFS_TRY(writer_.check_without_members(key));
    CODECFS_TRY(put_files(key, false));
    // What made it a group.
    for (const char* const file : {kGroupFile, kAttributesFile, ".nczgroup", ".nczattr"}) {
      const bool is_new = std::ranges::find(files_, file, &std::pair<std::string, std::string>::first) != files_.end();
      CODECFS_ASSIGN(const auto known, writer_.store_.texts().get(join_key(key, file)));
      if (!is_new && *known) CODECFS_TRY(writer_.remove_metadata(join_key(key, file)));
    }
    return {};
  }

 private:
  /// The file that makes it a group or array comes first, so that only one of several programs makes it.
  Result<> put_files(const std::string& key, bool is_new) {
    CODECFS_TRY(writer_.begin_updates());
    std::ranges::stable_sort(files_, std::greater(), [](const auto& file) { return is_key_file(file.first); });
    // After an error the files that there are stay: another program may have made the same.
    for (const auto& [name, text] : files_) CODECFS_TRY(put(join_key(key, name), text, is_new));
    return {};
  }

  Result<> put(const std::string& key, const std::string& text, bool is_new) {
    if (!is_new) return writer_.write_metadata(key, bytes_of(text));
    auto etag = writer_.store_.put(key, bytes_of(text), {.is_new = true, .etag = {}});
    if (!etag && is_refused(etag.error())) {
      writer_.store_.texts().forget(key);
      (void)writer_.store_.texts().condition_for(key);  // what it is now is shown
      return fail(EEXIST, "{}: another program has made it at the same time", key);
    }
    if (!etag) return pass_on(etag);
    writer_.store_.texts().note_written(key, text, *etag);
    return {};
  }

  ObjectWriter& writer_;
  const std::string parent_;
  std::vector<std::pair<std::string, std::string>> files_;  // names and texts
};

Result<std::unique_ptr<NewDirectory>> ObjectWriter::new_directory(const std::string& parent, const std::string&,
                                                                  mode_t) {
  CODECFS_TRY(begin());
  return std::make_unique<NewObjects>(*this, parent);
}

Result<std::unique_ptr<NewDirectory>> ObjectWriter::new_store(mode_t) {
  return not_atomic("the store", "cannot be replaced as a whole");
}

Result<> ObjectWriter::exchange_store(NewDirectory&) {
  return not_atomic("the store", "cannot be replaced as a whole");
}

Result<> ObjectWriter::move(const std::string& from_parent, const std::string& from, const std::string&,
                            const std::string&) {
  return not_atomic(join_key(from_parent, from), "cannot be renamed");
}

Result<std::unique_ptr<NewDirectory>> ObjectWriter::remove_directory(const std::string& parent,
                                                                     const std::string& name) try {
  CODECFS_TRY(begin());
  const std::string key = join_key(parent, name);
  CODECFS_ASSIGN(const bool is_array, store_.texts().is_array(key));
  if (!is_array) CODECFS_TRY(check_without_members(key));
  CODECFS_ASSIGN(const auto objects, store_.objects_below(key));
  // Data first: as long as an array is there, its removal can be repeated.
  std::vector<std::string> chunks;
  std::vector<std::string> metadata;
  for (const std::string& object : objects) (is_metadata_key(object) ? metadata : chunks).push_back(object);
  CODECFS_TRY(
      parallel_for(chunks.size(), {.threads = kRemovals}, [&](uint64_t i) { return store_.remove(chunks[i]); }));
  // Those deeper in it come first, and last what makes it a group or array.
  std::ranges::stable_sort(metadata, {}, [&](const std::string& file) {
    return std::pair(holder_of(file) == key, is_key_file(name_of(file)));
  });
  for (const std::string& file : metadata) CODECFS_TRY(remove_metadata(file));
  return std::make_unique<NewObjects>(*this, parent);
} catch (const std::bad_alloc&) {
  return fail(ENOMEM, "{}: no memory to remove it", join_key(parent, name));
}

/// ENOTEMPTY if there is more of a group than its own metadata: other programs may have made members of it.
Result<> ObjectWriter::check_without_members(const std::string& group) const {
  CODECFS_ASSIGN(const auto objects, store_.objects_below(group));
  for (const std::string& object : objects)
    if (object != group + "/" && (holder_of(object) != group || !is_metadata_key(object)))
      return fail(ENOTEMPTY, "{}: is not empty: the object {} is in it", group, object);
  return {};
}

// --- files

Result<> ObjectWriter::write(const std::string& array, const std::string& name, Bytes bytes, mode_t) {
  CODECFS_TRY(begin());
  const std::string key = join_key(array, name);
  if (is_metadata_key(key)) return write_metadata(key, bytes);
  CODECFS_TRY(store_.put(key, bytes, {}));
  return {};
}

Result<> ObjectWriter::write_parts(const std::string& array, const std::string& name, std::span<const StorePart> parts,
                                   mode_t mode) {
  uint64_t size = 0;
  for (const StorePart& part : parts) size += part.size;
  CODECFS_ASSIGN(Buffer content, Buffer::allocate(size));
  CODECFS_TRY(read_parts(parts, content.mutable_bytes()));
  return write(array, name, content.bytes(), mode);
}

Result<> ObjectWriter::remove(const std::string& array, const std::string& name) {
  CODECFS_TRY(begin());
  const std::string key = join_key(array, name);
  return is_metadata_key(key) ? remove_metadata(key) : store_.remove(key);
}

Result<> ObjectWriter::write_metadata(const std::string& key, Bytes bytes) {
  CODECFS_TRY(begin_updates());
  CODECFS_ASSIGN(const remote::WriteCondition condition, store_.texts().condition_for(key));
  auto etag = store_.put(key, bytes, condition);
  if (!etag && is_refused(etag.error())) {
    store_.texts().forget(key);
    (void)store_.texts().condition_for(key);
    return changed(key);
  }
  if (!etag) {
    store_.texts().forget(key);  // it may have been stored
    return pass_on(etag);
  }
  store_.texts().note_written(key, std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), *etag);
  return {};
}

Result<> ObjectWriter::remove_metadata(const std::string& key) {
  CODECFS_TRY(store_.remove(key));
  store_.texts().note_written(key, std::nullopt, {});
  return {};
}

// --- SharedStore

Result<> ObjectWriter::begin_updates() {
  CODECFS_TRY(begin());
  const LockGuard lock(probe_mutex_);
  if (probed_) return *probed_;
  std::random_device random;
  const std::string prefix = store_.object_key(".codecfs-probe-");
  remove_abandoned(store_.client(), prefix);
  const std::string key = fmt::format("{}{:08x}{:08x}", prefix, random(), random());
  const Result<> probed = store_.client().check_conditions(key);
  if (probed || probed.error().code == EOPNOTSUPP) probed_ = probed;
  if (!probed) log::warning("{}", probed.error().reason);
  return probed;
}

Result<SharedStore::File> ObjectWriter::read_now(const std::string& key, uint64_t limit) {
  CODECFS_ASSIGN(auto part, store_.read_now(key, limit));
  if (!part) return File{};
  if (part->etag.empty())
    return fail(EOPNOTSUPP, "{}: the server gives it no ETag, so a part of it cannot be changed safely", key);
  return File{.bytes = std::move(part->bytes), .version = std::move(part->etag)};
}

Result<std::shared_ptr<const StoredFile>> ObjectWriter::open_now(const std::string& key) {
  return store_.reopen_file(key);
}

Result<std::string> ObjectWriter::replace(const std::string& key, const std::string& version,
                                          std::span<const StorePart> parts) {
  CODECFS_TRY(begin_updates());
  const remote::WriteCondition condition{.is_new = version.empty(), .etag = version};
  const auto put = [&](Bytes content) -> Result<std::string> {
    auto etag = store_.put(key, content, condition);
    if (!etag && is_refused(etag.error())) return changed(key);
    return etag;
  };
  if (parts.size() == 1 && !parts[0].file) return put(parts[0].bytes);
  uint64_t size = 0;
  for (const StorePart& part : parts) size += part.size;
  if (size > kMaxBytes) return fail(EFBIG, "{}: would have {} bytes, more than one request can store", key, size);
  CODECFS_ASSIGN(Buffer content, Buffer::allocate(size));
  CODECFS_TRY(read_parts(parts, content.mutable_bytes()));
  return put(content.bytes());
}

Result<bool> create_in_object_store(remote::ObjectClient& client, const std::string& key, const std::string& file,
                                    const std::string& text) {
  const std::string prefix = key.empty() || key.ends_with('/') ? key : key + "/";
  CODECFS_ASSIGN(const auto found, client.list(prefix, true, ""));
  const auto is_root_file = [&](const remote::ListedObject& object) {
    return is_key_file(object.key.substr(prefix.size())) || object.key.substr(prefix.size()) == ".nczarr";
  };
  if (std::ranges::any_of(found.objects, is_root_file)) return false;
  // An empty object of this name is what some programs make of a directory.
  const auto other = std::ranges::find_if(found.objects, [&](const auto& object) { return object.key != prefix; });
  if (other != found.objects.end() || !found.prefixes.empty())
    return fail(EEXIST, "{}: there are other objects below it: {}", key,
                other != found.objects.end() ? other->key : found.prefixes.front());
  auto made = client.put(prefix + file, bytes_of(text), {.is_new = true, .etag = {}});
  if (!made && made.error().code == EEXIST) return false;
  if (!made) return pass_on(made);
  return true;
}

}  // namespace codecfs::zarr
