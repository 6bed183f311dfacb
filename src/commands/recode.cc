#include "commands/recode.h"

#include <utility>

#include "commands/dataset_info.h"
#include "commands/tree_files.h"
#include "commands/workers.h"
#include "fs/views/encoded_forms.h"

namespace codecfs::commands {
namespace {

/// Recodes one variable. The reason why it is left as it is goes to `report`; ECANCELED.
Result<> recode_variable(TreeFiles& tree, const InfoNode& node, Recoded& report) {
  const Result<> done = [&]() -> Result<> {
    CODECFS_ASSIGN(const TreeFiles::Ino ino, tree.find_path(node.path));
    CODECFS_ASSIGN(const fs::Place place, tree.filesystem().context().nodes.at(ino));
    const fs::ChunkPlace any_chunk{place.node->key(), node.entry.object, 0, nullptr};
    return tree.filesystem().filters().apply_rules(any_chunk, [] { return interrupted.load(); });
  }();
  if (done) return {};
  if (interrupted || done.error().code == EINTR) return fail(ECANCELED, "interrupted");
  report.refused = done.error();
  report.changes = false;
  return {};
}

/// Says what became of the variable. ECANCELED.
Result<> measure(Source& source, const std::string& path, const Variable& before, Recoded& report) {
  CODECFS_ASSIGN(const DatasetInfo info, read_info(source, "", path));
  const VariableInfo& now = *info.nodes[0].variable;
  if (!now.facts) return std::unexpected(*now.error);
  report.after = filters_text(now.facts->filters);
  report.changes = !fs::are_equal(before.filters, now.facts->filters);
  report.bytes_after = now.stored_bytes;
  return {};
}

/// Recodes the variables of `before`, or finds out what would happen, and gives `done` a report after each.
Result<> recode_all(TreeFiles& tree, Source& source, const DatasetInfo& before, bool dry_run,
                    const std::function<void(Recoded)>& done) {
  fs::Filesystem& filesystem = tree.filesystem();
  for (const InfoNode& node : before.nodes) {
    if (!node.variable) continue;
    Recoded report{.path = "/" + node.path, .before = {}, .after = {}, .refused = {}};
    const VariablePtr& facts = node.variable->facts;
    if (facts == nullptr) {
      if (!filesystem.context().rules.resolve(report.path)) continue;
      report.refused = node.variable->error;
      done(std::move(report));
      continue;
    }
    const auto wanted = filesystem.rules().pipeline_for(report.path, *facts);
    if (!wanted) continue;
    report.before = filters_text(facts->filters);
    report.after = filters_text(*wanted);
    report.changes = !fs::are_equal(facts->filters, *wanted);
    report.chunks = node.variable->stored_chunks;
    report.bytes_before = node.variable->stored_bytes;
    Result<> measured;
    if (!dry_run) {
      CODECFS_TRY(recode_variable(tree, node, report));
      if (!report.refused) measured = measure(source, node.path, *facts, report);
    }
    done(std::move(report));
    CODECFS_TRY(measured);
  }
  return {};
}

}  // namespace

Result<RecodeResult> recode(std::unique_ptr<Source> owned, filters::FilterRules rules, bool dry_run,
                            const std::function<void(const Recoded&)>& told) {
  if (owned->root().kind == EntryKind::folder)
    return fail(EINVAL,
                "the source is a folder of datasets, of which a rule would change each: recode them one by one");
  if (!dry_run) CODECFS_TRY(owned->writable());
  Source& source = *owned;
  CODECFS_ASSIGN(const DatasetInfo before, read_info(source, ""));
  for (const InfoNode& node : before.nodes)
    if (node.error) return fail(node.error->code, "/{}: {}", node.path, node.error->reason);
  TreeFiles tree(std::move(owned), {.rules = std::move(rules), .read_only = dry_run});
  CODECFS_TRY(tree.filesystem().rules().check());
  RecodeResult result;
  const Result<> ended = recode_all(tree, source, before, dry_run, [&](Recoded report) {
    told(report);
    result.variables.push_back(std::move(report));
  });
  if (!dry_run) {  // what was told is stored, however it ended
    result.reclaimable_bytes = source.reclaimable_bytes();
    CODECFS_TRY(tree.finish());
  }
  CODECFS_TRY(ended);
  return result;
}

}  // namespace codecfs::commands
