#include "commands/convert_file.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "backends/api/external_link.h"
#include "backends/api/source_copy.h"
#include "backends/open/source_opener.h"
#include "commands/omissions.h"
#include "commands/recode.h"
#include "commands/tree_files.h"
#include "commands/walk.h"
#include "commands/workers.h"

namespace codecfs::commands {
namespace {

bool is_skipped(const std::vector<std::string>& skip, const std::string& path) {
  return std::ranges::any_of(skip, [&](const std::string& skipped) { return is_within(path, skipped); });
}

bool is_same_directory(const std::string& one, const std::string& other) {
  std::error_code error;
  return std::filesystem::equivalent(one, other, error) && !error;
}

/// The names of the files with the data of virtual datasets and of those with external storage are relative to the
/// directory of the file, or to that of a process.
Result<> check_other_files(const Partial& partial, const DatasetInfo& info, const std::vector<std::string>& skip,
                           std::vector<std::string>& warnings) {
  std::string linked;  // an external link with a relative name
  bool is_beside = false;
  if (!is_source_url(info.source)) {
    std::error_code error;
    const auto source = std::filesystem::canonical(info.source, error);  // libhdf5 searches beside the file itself
    if (error) return fail(error.value(), "{}: {}", info.source, error.message());
    is_beside = is_same_directory(source.parent_path().string(), partial.directory());
  }
  for (const InfoNode& node : info.nodes) {
    const std::string path = "/" + node.path;
    const std::string& target = node.entry.target;
    if (target.starts_with(kExternalLink) && !target.substr(kExternalLink.size()).starts_with('/') &&
        !is_skipped(skip, path))
      linked = path;
    if (!node.variable || !node.variable->facts || is_skipped(skip, path)) continue;
    const Storage storage = node.variable->facts->storage;
    if (storage != Storage::external && storage != Storage::virtual_sources) continue;
    if (!is_beside)
      return fail(EOPNOTSUPP,
                  "{}: its data is in other files, which a file in another directory may not find; convert into the "
                  "directory of {}, or to Zarr, or leave it out with --skip {}",
                  path, info.source, path);
    warnings.push_back(fmt::format("{}: its data is in other files, to which the new file refers too", path));
  }
  if (!is_beside && !linked.empty())
    warnings.push_back(fmt::format("{}: external links name files relative to the directory of the new file", linked));
  return {};
}

/// Removes a member, and before that everything below it. Nothing if it is not there any more.
Result<> remove_member(Source& copy, const std::string& path) {
  const std::string inside = normal_path(path);
  const size_t slash = inside.rfind('/');
  CODECFS_ASSIGN(const Entry parent, find_path(copy, slash == inside.npos ? "" : inside.substr(0, slash)));
  const std::string name = inside.substr(slash + 1);
  const Result<Entry> member = copy.find(parent.object, name);
  if (!member && member.error().code == ENOENT) return {};
  CODECFS_TRY(member);
  std::vector<std::pair<Entry, Entry>> found;  // with its group
  std::vector<std::pair<std::string, Entry>> groups{{slash == inside.npos ? "" : inside.substr(0, slash), parent}};
  CODECFS_TRY(walk(
      copy, inside, *member,
      [&](const std::string& at, const Entry& entry) -> Result<> {
        while (!is_within(at, groups.back().first)) groups.pop_back();
        found.emplace_back(groups.back().second, entry);
        if (entry.kind == EntryKind::group) groups.emplace_back(at, entry);
        return {};
      },
      [](const std::string& at, const Error& error) -> Result<> {
        return fail(error.code, "/{}: {}", at, error.reason);
      }));
  for (auto item = found.rbegin(); item != found.rend(); ++item)
    CODECFS_TRY(copy.remove(item->first.object, item->second.name));
  return {};
}

Result<> remove_skipped(const std::string& copy_path, const SourceOpener& opener,
                        const std::vector<std::string>& skip) {
  if (skip.empty()) return {};
  CODECFS_ASSIGN(const std::unique_ptr<Source> copy, opener.open(copy_path, true));
  CODECFS_TRY(copy->writable());
  for (const std::string& path : skip) {
    if (interrupted) return fail(ECANCELED, "interrupted");
    const Result<> removed = remove_member(*copy, path);
    if (removed) continue;
    const bool is_lasting = removed.error().code == EIO;  // an object whose header is damaged
    return fail(is_lasting ? EOPNOTSUPP : removed.error().code,
                "--skip {}: it cannot be removed from a copy of the file: {}", path, removed.error().reason);
  }
  return copy->finish();
}

std::string with_path(const std::string& path, const std::string& reason) {
  return reason.starts_with(path + ": ") ? reason : path + ": " + reason;
}

/// Whether the file has no data of this variable, to which filters could apply.
bool has_no_data(const DatasetInfo& info, const std::string& path) {
  const auto node = std::ranges::find(info.nodes, normal_path(path), &InfoNode::path);
  if (node == info.nodes.end() || !node->variable || !node->variable->facts) return false;
  const Variable& facts = *node->variable->facts;
  return facts.storage == Storage::external || facts.storage == Storage::virtual_sources || facts.grid.count() == 0;
}

Result<> recode_copy(const std::string& copy_path, const SourceOpener& opener, const DatasetInfo& info,
                     filters::FilterRules rules, std::vector<std::string>& warnings) {
  if (rules.empty()) return {};
  const std::vector<std::string> named = rules.names();
  CODECFS_ASSIGN(std::unique_ptr<Source> copy, opener.open(copy_path, true));
  std::optional<Error> refused;
  const auto told = [&](const Recoded& variable) {
    if (!variable.refused) return;
    const Error& error = *variable.refused;
    const bool is_named = std::ranges::find(named, variable.path) != named.end();
    const bool has_no_form = has_no_data(info, variable.path) || error.code == EOPNOTSUPP || error.code == EINVAL;
    if (has_no_form && !is_named)
      warnings.push_back("the filters are not changed: " + with_path(variable.path, error.reason));
    else if (!refused)
      refused = Error{error.code, with_path(variable.path, error.reason)};
  };
  CODECFS_TRY(recode(std::move(copy), std::move(rules), false, told));
  if (refused) return std::unexpected(*refused);
  return {};
}

/// The file is complete without this: the space of what was replaced stays in it if that is not possible.
Result<> compact_copy(const Partial& partial, const ConvertOptions& options, std::vector<std::string>& warnings) {
  const auto compacted = compact_source(partial.path(), [] { return interrupted.load(); });
  if (compacted) return {};
  const Error& error = compacted.error();
  if (!options.skip.empty() && error.code == EOPNOTSUPP)
    return fail(EOPNOTSUPP, "what --skip names is needed by what stays, or the file cannot be compacted: {}",
                error.reason);
  if (!options.skip.empty() || (error.code != EOPNOTSUPP && error.code != ENOSPC)) return std::unexpected(error);
  warnings.push_back(fmt::format("unused space stays in the new file: {}", error.reason));
  return {};
}

Result<> check_rules(std::unique_ptr<Source> source, const filters::FilterRules& rules) {
  TreeFiles tree(std::move(source), {.rules = rules, .read_only = true});
  return tree.filesystem().rules().check(fs::MountRules::Unknown::is_refused);
}

}  // namespace

Result<Converted> convert_file(Partial& partial, std::unique_ptr<Source> source, const DatasetInfo& info,
                               ConvertOptions options) {
  Converted done;
  Omissions omissions(options);
  omissions.add_found(info, true);
  if (omissions.fails()) return std::unexpected(omissions.error());
  if (!options.libver.empty())
    done.warnings.emplace_back("--libver: an HDF5 file is copied with the versions that it has");
  CODECFS_TRY(check_other_files(partial, info, options.skip, done.warnings));
  CODECFS_TRY(check_rules(std::move(source), options.rules));
  if (!partial.is_copied()) {
    const auto is_cancelled = [] { return interrupted.load(); };
    const Result<> copied = is_source_url(info.source)
                                ? options.opener.copy_object(info.source, partial.path(), is_cancelled)
                                : copy_hdf5_file(info.source, partial.path(), is_cancelled);
    if (!copied) {
      partial.discard();  // of no use
      return std::unexpected(copied.error());
    }
    CODECFS_TRY(partial.note_copied());
  }
  CODECFS_TRY(remove_skipped(partial.path(), options.opener, options.skip));
  CODECFS_TRY(recode_copy(partial.path(), options.opener, info, std::move(options.rules), done.warnings));
  if (interrupted) return fail(ECANCELED, "interrupted");
  CODECFS_TRY(compact_copy(partial, options, done.warnings));
  CODECFS_ASSIGN(const std::unique_ptr<Source> made, options.opener.open(partial.path()));
  CODECFS_ASSIGN(const DatasetInfo now, read_info(*made, partial.path()));
  for (const InfoNode& node : now.nodes) {
    if (!node.variable) continue;
    done.chunks += node.variable->stored_chunks;
    done.bytes += node.variable->stored_bytes;
  }
  omissions.warn_of_links(info, done.warnings);
  omissions.tell_allowed();
  return done;
}

}  // namespace codecfs::commands
