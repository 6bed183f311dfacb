#include "base/file_name.h"

#include <gtest/gtest.h>

#include <climits>

namespace codecfs {
namespace {

TEST(FileName, ShortOnesAreKept) {
  EXPECT_EQ(fitted_name(".", "a.h5", ".tmp"), ".a.h5.tmp");
  const std::string longest(NAME_MAX - 5, 'x');
  EXPECT_EQ(fitted_name(".", longest, ".tmp"), "." + longest + ".tmp");
}

TEST(FileName, LongOnesAreCutAndStayDifferent) {
  const std::string name(NAME_MAX, 'x');
  const std::string fitted = fitted_name(".", name, ".tmp");
  EXPECT_EQ(fitted.size(), size_t{NAME_MAX});
  EXPECT_TRUE(fitted.starts_with(".xxx") && fitted.ends_with(".tmp"));
  EXPECT_NE(fitted, fitted_name(".", name.substr(1) + "y", ".tmp"));
}

TEST(FileName, CharactersStayWhole) {
  std::string name;
  while (name.size() + 2 <= NAME_MAX) name += "\u00e9";
  for (const char* suffix : {".a", ".ab"}) {
    const std::string fitted = fitted_name("", name, suffix);
    EXPECT_LE(fitted.size(), size_t{NAME_MAX});
    EXPECT_EQ(fitted.find('~') % 2, 0U) << fitted;
  }
}

}  // namespace
}  // namespace codecfs
