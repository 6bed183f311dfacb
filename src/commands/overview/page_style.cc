#include "commands/overview/page_style.h"

#include "commands/overview/picture.h"

namespace codecfs::commands::overview {
namespace {

constexpr const char* kStyle = R"css(
:root{color-scheme:light dark;--text:#1c2430;--faint:#5d6878;--page:#fff;--card:#f6f7f9;--rule:#dfe3e8;--link:#1f5fa8;
--line:#1f6fb4;--area:#8fbce0;--bad:#a3191f;--bad-page:#fdecec;--none:#e3e6ea}
@media(prefers-color-scheme:dark){:root{--text:#dbe1ea;--faint:#95a1b2;--page:#14181f;--card:#1c222b;--rule:#323a46;
--link:#7fb4ff;--line:#6cb2f0;--area:#37628a;--bad:#ff9a9a;--bad-page:#3a1d20;--none:#2b323d}}
*{box-sizing:border-box}
body{margin:0 auto;padding:20px 24px 48px;max-width:1180px;background:var(--page);color:var(--text);
font:14px/1.45 system-ui,"Segoe UI","DejaVu Sans",Roboto,Helvetica,Arial,sans-serif}
h1{font-size:20px;margin:0 0 2px;overflow-wrap:anywhere}
header p,footer{color:var(--faint);margin:2px 0}
footer{margin-top:28px;border-top:1px solid var(--rule);padding-top:10px;font-size:12px}
a{color:var(--link)}
summary{cursor:pointer}
.bad{color:var(--bad)}
.problems{background:var(--bad-page);border-radius:6px;padding:8px 14px;margin:12px 0}
.problems ul{margin:4px 0;padding-left:20px}
.group{margin-top:10px}
.group>summary{font-weight:600;font-size:15px;padding:3px 0;overflow-wrap:anywhere}
.group>summary span,.faint{color:var(--faint);font-weight:400;font-size:13px}
.in{border-left:1px solid var(--rule);margin-left:5px;padding-left:16px}
.in.root{border:0;margin:0;padding:0}
.var{border:1px solid var(--rule);border-radius:6px;margin:6px 0;background:var(--card);content-visibility:auto;
contain-intrinsic-size:auto 128px}
.var>summary{display:grid;grid-template-columns:176px minmax(0,1fr);gap:4px 18px;padding:8px 12px;list-style:none}
.var>summary::-webkit-details-marker{display:none}
.pic{min-height:36px;display:flex;flex-direction:column;align-items:flex-start;justify-content:center}
.pic .px{image-rendering:pixelated;background:repeating-linear-gradient(45deg,var(--none) 0 3px,transparent 3px 6px);
border-radius:2px}
.pic small{color:var(--faint);font-size:12px}
.var[open]>summary{grid-template-columns:352px minmax(0,1fr)}
.var[open] .px{zoom:2}
.var[open] .plot{width:352px;height:152px}
.var[open] .scale,.var[open] .keys{width:352px;max-width:352px}
.plot{position:relative;display:block;width:176px;height:76px;border:solid var(--rule);border-width:0 0 1px 1px}
.plot svg{display:block;width:100%;height:100%;overflow:visible}
.plot path{fill:none;vector-effect:non-scaling-stroke;stroke-linejoin:round;stroke-linecap:round}
.plot .line{stroke:var(--line);stroke-width:1.5}
.plot .area{stroke:var(--area);stroke-width:2}
.plot .zero{stroke:var(--rule);stroke-width:1}
.plot span{position:absolute;right:0;font-size:10px;line-height:1;color:var(--faint);background:var(--card);padding:1px 2px}
.plot .top{top:0}.plot .low{bottom:1px}
.scale{display:flex;align-items:center;gap:5px;width:176px;margin-top:3px;font-size:10px;line-height:1.2;color:var(--faint)}
.scale i{flex:1;height:6px;border-radius:2px;min-width:24px}
.keys{display:flex;flex-wrap:wrap;gap:0 8px;margin-top:3px;font-size:10px;color:var(--faint);max-width:176px}
.keys i{display:inline-block;width:8px;height:8px;border-radius:2px;margin-right:3px}
.main{min-width:0;overflow-wrap:anywhere}
.main b{font-size:15px}
.main b::after{content:" ▸";color:var(--faint);font-weight:400}
.var[open] .main b::after{content:" ▾"}
.type{font-family:ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;font-size:12.5px;color:var(--faint)}
.stats{display:flex;flex-wrap:wrap;gap:0 16px;margin-top:2px}
.stats span span{color:var(--faint)}
.body{padding:4px 12px 12px 12px}
dl,table{margin:6px 0;font-size:13px}
dl{display:grid;grid-template-columns:104px minmax(0,1fr);gap:1px 10px}
dt,th{color:var(--faint);font-weight:400;text-align:left;vertical-align:top}
dd{margin:0;overflow-wrap:anywhere}
table{border-collapse:collapse;width:100%;table-layout:fixed}
th{width:220px}
th,td{padding:1px 10px 1px 0;overflow-wrap:anywhere;vertical-align:top}
td:last-child{color:var(--faint);width:80px}
td.value{width:auto;color:inherit;white-space:pre-wrap}
.attrs{margin:4px 0}
.attrs>summary{color:var(--faint)}
.row{margin:0;padding:1px 0;overflow-wrap:anywhere;content-visibility:auto;contain-intrinsic-size:auto 21px}
.row i{font-style:normal;color:var(--faint)}
@media(max-width:640px){.var>summary,.var[open]>summary{grid-template-columns:1fr}th{width:110px}}
)css";

}  // namespace

std::string page_css() { return kStyle + picture_css(); }

}  // namespace codecfs::commands::overview
