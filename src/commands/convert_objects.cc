#include "commands/convert_objects.h"

#include <algorithm>
#include <random>
#include <span>
#include <utility>

#include "backends/api/source_copy.h"
#include "base/log.h"
#include "commands/workers.h"
#include "model/json.h"

namespace codecfs::commands {
namespace {

constexpr size_t kRemovals = 32;  // at a time
constexpr uint64_t kMaxNote = uint64_t{1} << 20;

Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// Files that make a store of what is below a key.
bool is_key_file(std::string_view name) { return name == ".zgroup" || name == ".zarray" || name == "zarr.json"; }

}  // namespace

Result<std::unique_ptr<ObjectTarget>> ObjectTarget::begin(std::shared_ptr<remote::ObjectClient> client, std::string key,
                                                          const std::string& name, const Json& identity, bool resume) {
  while (key.ends_with('/')) key.pop_back();
  if (key.empty()) return fail(EINVAL, "{}: not the name of a new dataset", name);
  std::unique_ptr<ObjectTarget> target(new ObjectTarget(std::move(client), key + "/"));
  const std::string text = print_json(identity) + "\n";
  CODECFS_ASSIGN(const auto note, target->client_->get(target->prefix_ + kPartialNote, {}, kMaxNote));
  if (note) {
    if (!resume)
      return fail(EEXIST,
                  "{}: is left of an interrupted conversion; --resume goes on with it, or remove what is below it",
                  name);
    const std::string before(reinterpret_cast<const char*>(note->bytes.data()), note->bytes.size());
    if (!before.starts_with(text))
      return fail(EINVAL,
                  "{}: is of another conversion, or the source has changed since: remove what is below it, and start "
                  "anew",
                  name);
    CODECFS_TRY(target->list());
    target->is_resumed_ = true;
    return target;
  }
  CODECFS_ASSIGN(const auto there, target->client_->list(target->prefix_, false, ""));
  const auto other =
      std::ranges::find_if(there.objects, [&](const auto& object) { return object.key != target->prefix_; });
  if (other != there.objects.end()) return fail(EEXIST, "{}: exists: {}", name, other->key);
  // The second line differs, so that only one of several processes makes it.
  std::random_device random;
  const std::string note_text = text + fmt::format("{:08x}{:08x}\n", random(), random());
  auto made = target->client_->put(target->prefix_ + kPartialNote, bytes_of(note_text), {.is_new = true, .etag = {}});
  if (!made && made.error().code == EEXIST) return fail(EBUSY, "{}: another process is converting into it", name);
  if (!made) return pass_on(made);
  return target;
}

Result<> ObjectTarget::list() {
  std::string token;
  do {
    CODECFS_ASSIGN(remote::ObjectList page, client_->list(prefix_, false, token));
    for (const remote::ListedObject& object : page.objects) sizes_[object.key.substr(prefix_.size())] = object.size;
    token = std::move(page.next);
  } while (!token.empty());
  return {};
}

Result<ConvertTarget::Directory> ObjectTarget::make_directory(const Directory& parent, const std::string& name) {
  return Directory{parent.path + name + "/", 0};
}

Result<> ObjectTarget::remove_directory(const Directory&, const Directory& directory, const std::string&) {
  std::string token;
  do {
    CODECFS_ASSIGN(remote::ObjectList page, client_->list(prefix_ + directory.path, false, token));
    for (const remote::ListedObject& object : page.objects) CODECFS_TRY(client_->remove(object.key));
    token = std::move(page.next);
  } while (!token.empty());
  return {};
}

Result<bool> ObjectTarget::has(const Directory& directory, const std::string& name, uint64_t size) {
  const auto found = sizes_.find(directory.path + name);
  return found != sizes_.end() && found->second == size;
}

Result<> ObjectTarget::put(const std::string& path, Bytes content) {
  CODECFS_TRY(client_->put(prefix_ + path, content, {}));
  return {};
}

Result<> ObjectTarget::write(const Directory& directory, const std::string& name, Bytes content) {
  const bool is_metadata = name.starts_with(".z") || name == "zarr.json";
  if (!directory.path.empty() || !is_metadata) return put(directory.path + name, content);
  root_.emplace_back(name, std::string(reinterpret_cast<const char*>(content.data()), content.size()));
  return {};
}

Result<> ObjectTarget::make_link(const Directory&, const std::string&, const std::string&) {
  return fail(EOPNOTSUPP, "object stores have no links");
}

Result<> ObjectTarget::complete() {
  std::ranges::stable_sort(root_, {}, [](const auto& file) { return is_key_file(file.first); });
  for (const auto& [name, content] : root_) CODECFS_TRY(put(name, bytes_of(content)));
  return client_->remove(prefix_ + kPartialNote);
}

void ObjectTarget::discard() {
  sizes_.clear();
  const Result<> listed = list();
  std::vector<std::string> paths;
  for (const auto& [path, size] : sizes_)
    if (path != kPartialNote) paths.push_back(path);
  Result<> removed = listed;
  if (removed)
    removed = in_parallel(paths.size(), [&](uint64_t i) { return client_->remove(prefix_ + paths[i]); }, kRemovals);
  if (removed) removed = client_->remove(prefix_ + kPartialNote);
  if (!removed) log::warning("{}: objects were left behind: {}", prefix_, removed.error().reason);
}

}  // namespace codecfs::commands
