@group(0) @binding(6) var<storage, read_write> v25: array<f32>;
@group(0) @binding(5) var<storage, read_write> v21: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> v17: array<u32>;
@group(0) @binding(3) var<storage, read> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<u32>>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 26>, scalars_f32: array<f32, 2>, scalars_i32: array<i32, 8>, static_meta: array<u32, 8> }
@group(0) @binding(7) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn cache_attention_f32_f32_causal(@builtin(workgroup_id) v2241: vec3<u32>, @builtin(num_workgroups) v2243: vec3<u32>, @builtin(local_invocation_index) v2250: u32) {
let v2386 = &v25;
let v2387 = &v21;
let v2388 = &v17;
let v2389 = &v13;
let v2390 = &v9;
let v2391 = &v5;
let v2392 = &v1;
let v3 = u32(0);
let v29 = info_var.scalars_usize[0];
let v30 = info_var.scalars_usize[1];
let v31 = info_var.scalars_usize[2];
let v32 = info_var.scalars_usize[3];
let v33 = info_var.scalars_usize[4];
let v34 = info_var.scalars_f32[0];
let v35 = info_var.scalars_i32[0];
let v36 = info_var.scalars_i32[1];
let v37 = info_var.scalars_i32[2];
let v38 = info_var.scalars_i32[3];
let v39 = info_var.scalars_i32[4];
let v40 = info_var.scalars_i32[5];
let v41 = info_var.scalars_i32[6];
let v42 = info_var.scalars_i32[7];
let v43 = info_var.scalars_usize[5];
let v44 = info_var.scalars_f32[1];
let v45 = info_var.scalars_usize[6];
let v46 = info_var.scalars_usize[7];
let v47 = info_var.scalars_usize[8];
let v48 = info_var.scalars_usize[9];
let v49 = info_var.scalars_usize[10];
let v50 = info_var.scalars_usize[11];
let v51 = info_var.scalars_usize[12];
let v52 = info_var.scalars_usize[13];
let v53 = info_var.scalars_usize[14];
let v54 = info_var.scalars_usize[15];
let v55 = info_var.scalars_usize[16];
let v56 = info_var.scalars_usize[17];
let v57 = info_var.scalars_usize[18];
let v58 = info_var.scalars_usize[19];
let v59 = info_var.scalars_usize[20];
let v60 = info_var.scalars_usize[21];
let v61 = info_var.scalars_usize[22];
let v62 = info_var.scalars_usize[23];
let v63 = info_var.scalars_usize[24];
let v64 = info_var.scalars_usize[25];
var<function> v1781_store: u32;
let v1781 = &v1781_store;
*v1781 = v29;
var<function> v1782_store: u32;
let v1782 = &v1782_store;
*v1782 = v30;
var<function> v1783_store: u32;
let v1783 = &v1783_store;
*v1783 = v31;
var<function> v1784_store: u32;
let v1784 = &v1784_store;
*v1784 = v32;
var<function> v1785_store: u32;
let v1785 = &v1785_store;
*v1785 = v33;
var<function> v1786_store: f32;
let v1786 = &v1786_store;
*v1786 = v34;
var<function> v1787_store: i32;
let v1787 = &v1787_store;
*v1787 = v35;
var<function> v1788_store: i32;
let v1788 = &v1788_store;
*v1788 = v36;
var<function> v1789_store: i32;
let v1789 = &v1789_store;
*v1789 = v37;
var<function> v1790_store: i32;
let v1790 = &v1790_store;
*v1790 = v38;
var<function> v1791_store: i32;
let v1791 = &v1791_store;
*v1791 = v39;
var<function> v1792_store: i32;
let v1792 = &v1792_store;
*v1792 = v40;
var<function> v1793_store: i32;
let v1793 = &v1793_store;
*v1793 = v41;
var<function> v1794_store: i32;
let v1794 = &v1794_store;
*v1794 = v42;
var<function> v1795_store: u32;
let v1795 = &v1795_store;
*v1795 = v43;
var<function> v1796_store: f32;
let v1796 = &v1796_store;
*v1796 = v44;
var<function> v1797_store: u32;
let v1797 = &v1797_store;
*v1797 = v45;
var<function> v1798_store: u32;
let v1798 = &v1798_store;
*v1798 = v46;
var<function> v1799_store: u32;
let v1799 = &v1799_store;
*v1799 = v47;
var<function> v1800_store: u32;
let v1800 = &v1800_store;
*v1800 = v48;
var<function> v1801_store: u32;
let v1801 = &v1801_store;
*v1801 = v49;
var<function> v1802_store: u32;
let v1802 = &v1802_store;
*v1802 = v50;
var<function> v1803_store: u32;
let v1803 = &v1803_store;
*v1803 = v51;
var<function> v1804_store: u32;
let v1804 = &v1804_store;
*v1804 = v52;
var<function> v1805_store: u32;
let v1805 = &v1805_store;
*v1805 = v53;
var<function> v1806_store: u32;
let v1806 = &v1806_store;
*v1806 = v54;
var<function> v1807_store: u32;
let v1807 = &v1807_store;
*v1807 = v55;
var<function> v1808_store: u32;
let v1808 = &v1808_store;
*v1808 = v56;
let v93 = *v1784;
let v94 = *v1783;
let v95 = v93 * v94;
let v96 = u32(1);
let v97 = v95 + v96;
let v99 = v97 - v96;
let v2242 = v2241[2];
let v2219 = u32(v2242);
let v2244 = v2243[1];
let v2221 = u32(v2244);
let v2222 = v2219 * v2221;
let v2245 = v2243[0];
let v2224 = u32(v2245);
let v2225 = v2222 * v2224;
let v2246 = v2241[1];
let v2227 = u32(v2246);
let v2230 = v2227 * v2224;
let v2231 = v2225 + v2230;
let v2248 = v2241[0];
let v2233 = u32(v2248);
let v2234 = v2231 + v2233;
let v2252 = u32(64);
let v2237 = v2234 * v2252;
let v2251 = v2250;
let v2239 = u32(v2251);
let v2240 = v2237 + v2239;
for(var v103: u32 = v2240; v103 < v61; v103 += v64) {
let v105 = v103 / v99;
let v106 = v105 % v62;
let v108 = v105 / v62;
let v109 = *v1782;
let v110 = v108 / v109;
let v112 = v108 % v109;
let v113 = v103 % v99;
var<function> v1811_store: array<u32, 1>= array<u32, 1>();
let v1811 = &v1811_store;
var<function> v1812_store: array<u32, 1>= array<u32, 1>();
let v1812 = &v1812_store;
let v131 = v95 - v96;
let v132 = min(v113, v131);
let v133 = *v1783;
let v134 = v112 * v133;
let v136 = v132 % v133;
let v137 = v134 + v136;
let v142 = &(*v1811)[v3];
*v142 = v137;
let v143 = *v1783;
let v144 = v132 / v143;
let v149 = &(*v1812)[v3];
*v149 = v144;
let v150 = u32(2);
let v151 = v150 * v110;
let v155 = &(*v2389)[v151];
let v156 = *v155;
let v157 = i32(v156);
*v1787 = v157;
let v161 = v151 + v96;
let v165 = &(*v2389)[v161];
let v166 = *v165;
let v167 = u32(v166);
let v168 = v60 * v58;
let v169 = min(v167, v168);
*v1785 = v169;
let v171 = v113 + v96;
let v172 = min(v171, v95);
let v174 = v172 - v96;
let v175 = *v1783;
let v176 = v174 / v175;
let v182 = i32(v176);
let v183 = *v1787;
let v184 = v182 + v183;
let v185 = i32(0);
var<function> v1813_store: i32;
let v1813 = &v1813_store;
*v1813 = v185;
let v188 = *v1785;
let v189 = i32(v188);
var<function> v1814_store: i32;
let v1814 = &v1814_store;
*v1814 = v189;
let v191 = i32(1);
let v192 = v184 + v191;
let v193 = *v1814;
let v194 = min(v193, v192);
*v1814 = v194;
let v195 = *v1814;
let v197 = max(v195, v185);
let v198 = *v1813;
let v199 = min(v198, v197);
let v200 = u32(v199);
let v201 = u32(v197);
var<function> v1815_store: array<f32, 1>= array<f32, 1>();
let v1815 = &v1815_store;
var<function> v1816_store: array<vec4<f32>, 1>= array<vec4<f32>, 1>();
let v1816 = &v1816_store;
var<function> v1817_store: array<vec4<f32>, 2>= array<vec4<f32>, 2>();
let v1817 = &v1817_store;
let v218 = &(*v1815)[v3];
let v219 = f32(-3.4028234663852886e38);
*v218 = v219;
let v220 = f32(0.0);
let v221 = vec4<f32>(v220);
let v226 = &(*v1816)[v3];
*v226 = v221;
for(var v230: u32 = v3; v230 < v150; v230 += v96) {
let v237 = &(*v1817)[v230];
*v237 = v221;

}
let v238 = v106 * v63;
let v239 = u32(256);
let v240 = v200 / v239;
let v241 = max(v238, v240);
let v243 = v106 + v96;
let v244 = v243 * v63;
let v246 = v201 + v239;
let v248 = v246 - v96;
let v250 = v248 / v239;
let v251 = min(v244, v250);
for(var v253: u32 = v241; v253 < v251; v253 += v96) {
let v256 = v253 * v239;
let v257 = max(v200, v256);
let v259 = v256 + v239;
let v260 = min(v201, v259);
var<function> v1820_store: array<f32, 1>= array<f32, 1>();
let v1820 = &v1820_store;
var<function> v1821_store: array<vec4<f32>, 1>= array<vec4<f32>, 1>();
let v1821 = &v1821_store;
var<function> v1822_store: array<vec4<f32>, 2>= array<vec4<f32>, 2>();
let v1822 = &v1822_store;
let v277 = &(*v1820)[v3];
*v277 = v219;
let v285 = &(*v1821)[v3];
*v285 = v221;
for(var v289: u32 = v3; v289 < v150; v289 += v96) {
let v296 = &(*v1822)[v289];
*v296 = v221;

}
let v302 = *v1783;
let v303 = v113 / v302;
let v305 = v174 / v302;
let v306 = i32(v305);
let v307 = *v1787;
let v308 = v306 + v307;
let v309 = *v1785;
let v310 = i32(v309);
let v311 = v308 < v310;
let v312 = v257 / v58;
let v313 = v257 % v58;
let v314 = u32(16);
let v315 = v313 / v314;
var<function> v1824_store: u32;
let v1824 = &v1824_store;
*v1824 = v312;
var<function> v1825_store: u32;
let v1825 = &v1825_store;
*v1825 = v315;
let v319 = v257 / v314;
let v321 = v260 + v314;
let v323 = v321 - v96;
let v325 = v323 / v314;
for(var v327: u32 = v319; v327 < v325; v327 += v96) {
let v330 = v327 * v314;
let v331 = u32(15);
let v332 = v330 + v331;
let v333 = i32(v330);
let v334 = i32(v332);
let v335 = i32(v303);
let v336 = *v1787;
let v337 = v335 + v336;
let v340 = v306 + v336;
let v341 = v337 - v334;
let v342 = v340 - v333;
let v343 = true;
var<function> v1827_store: bool;
let v1827 = &v1827_store;
*v1827 = v343;
var<function> v1828_store: bool;
let v1828 = &v1828_store;
*v1828 = v343;
let v350 = v342 >= v185;
let v351 = *v1827;
let v352 = v351 && v350;
*v1827 = v352;
let v354 = v341 >= v185;
let v355 = *v1828;
let v356 = v355 && v354;
*v1828 = v356;
let v357 = u32(0);
var<function> v1829_store: u32;
let v1829 = &v1829_store;
*v1829 = v357;
let v360 = *v1827;
if v360 {
let v361 = u32(1);
*v1829 = v361;
let v362 = *v1828;
if v362 {
let v363 = u32(2);
*v1829 = v363;

}

}
var<function> v1830_store: u32;
let v1830 = &v1830_store;
*v1830 = v57;
let v365 = *v1824;
let v366 = v365 < v60;
if v366 {
let v367 = v110 * v60;
let v369 = v367 + v365;
let v373 = &(*v2390)[v369];
let v374 = *v373;
let v375 = u32(v374);
let v376 = min(v375, v57);
*v1830 = v376;

}
let v378 = v58 / v314;
let v379 = *v1830;
let v380 = v379 * v59;
let v381 = v380 + v112;
let v382 = v381 * v378;
let v383 = *v1825;
let v384 = v382 + v383;
let v385 = u32(384);
let v386 = v384 * v385;
let v387 = *v1829;
let v389 = v387 > v357;
let v391 = v379 < v57;
let v392 = v389 && v391;
if v392 {
let v394 = u32(2);
let v395 = v387 == v394;
let v396 = *v1785;
let v397 = v332 < v396;
let v398 = v395 && v397;
let v399 = v398 && v311;
var<function> v1831_store: array<u32, 1>= array<u32, 1>();
let v1831 = &v1831_store;
var<function> v1832_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v1832 = &v1832_store;
let v406 = u32(4);
let v408 = *v1781;
let v409 = v110 * v408;
let v415 = *v142;
let v416 = v409 + v415;
let v417 = *v1784;
let v418 = v416 * v417;
let v424 = *v149;
let v425 = v418 + v424;
let v427 = v425 * v314;
let v432 = &(*v1831)[v3];
*v432 = v427;
let v439 = &(*v1832)[v3];
*v439 = v221;
let v446 = &(*v1832)[v96];
*v446 = v221;
let v453 = &(*v1832)[v150];
*v453 = v221;
let v458 = u32(3);
let v460 = &(*v1832)[v458];
*v460 = v221;
for(var v464: u32 = v3; v464 < v314; v464 += v96) {
let v467 = v386 / v406;
let v469 = v464 * v406;
let v470 = v467 + v469;
let v476 = &(*v2391)[v470];
let v477 = *v476;
let v478 = bitcast<vec4<f32>>(v477);
let v488 = *v432;
let v489 = v488 + v464;
let v493 = &(*v2392)[v489];
let v494 = *v493;
let v495 = vec4<f32>(v494);
let v501 = *v439;
let v502 = fma(v495, v478, v501);
*v439 = v502;
let v514 = v470 + v96;
let v518 = &(*v2391)[v514];
let v519 = *v518;
let v520 = bitcast<vec4<f32>>(v519);
let v530 = *v432;
let v531 = v530 + v464;
let v535 = &(*v2392)[v531];
let v536 = *v535;
let v537 = vec4<f32>(v536);
let v543 = *v446;
let v544 = fma(v537, v520, v543);
*v446 = v544;
let v556 = v470 + v150;
let v560 = &(*v2391)[v556];
let v561 = *v560;
let v562 = bitcast<vec4<f32>>(v561);
let v572 = *v432;
let v573 = v572 + v464;
let v577 = &(*v2392)[v573];
let v578 = *v577;
let v579 = vec4<f32>(v578);
let v585 = *v453;
let v586 = fma(v579, v562, v585);
*v453 = v586;
let v598 = v470 + v458;
let v602 = &(*v2391)[v598];
let v603 = *v602;
let v604 = bitcast<vec4<f32>>(v603);
let v614 = *v432;
let v615 = v614 + v464;
let v619 = &(*v2392)[v615];
let v620 = *v619;
let v621 = vec4<f32>(v620);
let v627 = *v460;
let v628 = fma(v621, v604, v627);
*v460 = v628;

}
var<function> v1834_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v1834 = &v1834_store;
let v643 = *v439;
let v648 = &(*v1834)[v3];
*v648 = v643;
let v654 = *v446;
let v659 = &(*v1834)[v96];
*v659 = v654;
let v665 = *v453;
let v670 = &(*v1834)[v150];
*v670 = v665;
let v676 = *v460;
let v681 = &(*v1834)[v458];
*v681 = v676;
let v687 = *v1786;
let v688 = vec4<f32>(v687);
let v693 = *v648;
let v694 = v693 * v688;
*v648 = v694;
let v700 = *v1786;
let v701 = vec4<f32>(v700);
let v706 = *v659;
let v707 = v706 * v701;
*v659 = v707;
let v713 = *v1786;
let v714 = vec4<f32>(v713);
let v719 = *v670;
let v720 = v719 * v714;
*v670 = v720;
let v726 = *v1786;
let v727 = vec4<f32>(v726);
let v732 = *v681;
let v733 = v732 * v727;
*v681 = v733;
let v739 = *v142;
let v745 = *v149;
let v747 = vec4<i32>(v185);
var<function> v1835_store: vec4<i32>;
let v1835 = &v1835_store;
*v1835 = v747;
let v749 = *v1835;
let v751 = vec4<i32>(v185, v749[1], v749[2], v749[3]);
*v1835 = v751;
let v752 = *v1835;
let v754 = vec4<i32>(v752[0], v191, v752[2], v752[3]);
*v1835 = v754;
let v755 = *v1835;
let v756 = i32(2);
let v757 = vec4<i32>(v755[0], v755[1], v756, v755[3]);
*v1835 = v757;
let v758 = *v1835;
let v759 = i32(3);
let v760 = vec4<i32>(v758[0], v758[1], v758[2], v759);
*v1835 = v760;
var<function> v1836_store: u32;
let v1836 = &v1836_store;
*v1836 = v110;
var<function> v1837_store: u32;
let v1837 = &v1837_store;
*v1837 = v739;
var<function> v1838_store: u32;
let v1838 = &v1838_store;
*v1838 = v745;
var<function> v1839_store: u32;
let v1839 = &v1839_store;
*v1839 = v3;
var<function> v1840_store: vec4<i32>;
let v1840 = &v1840_store;
let v768 = *v1835;
*v1840 = v768;
let v770 = vec4<f32>(v219);
var<function> v1841_store: vec4<f32>;
let v1841 = &v1841_store;
*v1841 = v770;
let v772 = *v1838;
let v773 = i32(v772);
let v774 = *v1787;
let v775 = v773 + v774;
let v776 = *v1785;
let v777 = i32(v776);
let v778 = v775 < v777;
*v1839 = v330;
let v790 = *v648;
var<function> v1842_store: vec4<f32>;
let v1842 = &v1842_store;
*v1842 = v790;
let v792 = f32(1.0);
let v793 = vec4<f32>(v792);
var<function> v1843_store: vec4<f32>;
let v1843 = &v1843_store;
*v1843 = v793;
var<function> v1844_store: vec4<f32>;
let v1844 = &v1844_store;
let v796 = *v1842;
*v1844 = v796;
let v797 = !v399;
if v797 {
let v798 = *v1785;
let v799 = i32(v798);
let v800 = *v1839;
let v801 = i32(v800);
let v802 = v799 - v801;
let v804 = select(v185, v802, v778);
let v805 = *v1838;
let v806 = i32(v805);
let v807 = *v1787;
let v808 = v806 + v807;
let v811 = v801 - v808;
let v812 = vec4<i32>(v811);
let v813 = *v1840;
let v814 = v812 + v813;
let v819 = v747 == v747;
var<function> v1845_store: vec4<bool>;
let v1845 = &v1845_store;
*v1845 = v819;
let v821 = v814 <= v747;
let v822 = *v1845;
let v1846 = false;
let v1847 = vec4<bool>(v1846);
var<function> v2169_store: vec4<bool>;
let v2169 = &v2169_store;
*v2169 = v1847;
var<function> v2170_store: vec4<bool>;
let v2170 = &v2170_store;
let v1850 = *v2169;
*v2170 = v1850;
let v1851 = v822[0];
var<function> v2171_store: bool;
let v2171 = &v2171_store;
if v1851 {
let v1852 = v821[0];
*v2171 = v1852;

} else {
*v2171 = v1846;

}
let v1855 = *v2170;
let v1856 = *v2171;
let v1857 = vec4<bool>(v1856, v1855[1], v1855[2], v1855[3]);
*v2170 = v1857;
let v1858 = v822[1];
var<function> v2172_store: bool;
let v2172 = &v2172_store;
if v1858 {
let v1859 = v821[1];
*v2172 = v1859;

} else {
*v2172 = v1846;

}
let v1862 = *v2170;
let v1863 = *v2172;
let v1864 = vec4<bool>(v1862[0], v1863, v1862[2], v1862[3]);
*v2170 = v1864;
let v1865 = v822[2];
var<function> v2173_store: bool;
let v2173 = &v2173_store;
if v1865 {
let v1866 = v821[2];
*v2173 = v1866;

} else {
*v2173 = v1846;

}
let v1869 = *v2170;
let v1870 = *v2173;
let v1871 = vec4<bool>(v1869[0], v1869[1], v1870, v1869[3]);
*v2170 = v1871;
let v1872 = v822[3];
var<function> v2174_store: bool;
let v2174 = &v2174_store;
if v1872 {
let v1873 = v821[3];
*v2174 = v1873;

} else {
*v2174 = v1846;

}
let v1876 = *v2170;
let v1877 = *v2174;
let v1878 = vec4<bool>(v1876[0], v1876[1], v1876[2], v1877);
*v2170 = v1878;
let v1879 = *v2170;
*v1845 = v1879;
var<function> v1880_store: vec4<bool>;
let v1880 = &v1880_store;
let v825 = *v1845;
*v1880 = v825;
let v826 = vec4<i32>(v804);
let v827 = *v1840;
let v828 = v827 < v826;
let v829 = *v1880;
var<function> v2175_store: vec4<bool>;
let v2175 = &v2175_store;
*v2175 = v1847;
var<function> v2176_store: vec4<bool>;
let v2176 = &v2176_store;
let v1885 = *v2175;
*v2176 = v1885;
let v1886 = v829[0];
var<function> v2177_store: bool;
let v2177 = &v2177_store;
if v1886 {
let v1887 = v828[0];
*v2177 = v1887;

} else {
*v2177 = v1846;

}
let v1890 = *v2176;
let v1891 = *v2177;
let v1892 = vec4<bool>(v1891, v1890[1], v1890[2], v1890[3]);
*v2176 = v1892;
let v1893 = v829[1];
var<function> v2178_store: bool;
let v2178 = &v2178_store;
if v1893 {
let v1894 = v828[1];
*v2178 = v1894;

} else {
*v2178 = v1846;

}
let v1897 = *v2176;
let v1898 = *v2178;
let v1899 = vec4<bool>(v1897[0], v1898, v1897[2], v1897[3]);
*v2176 = v1899;
let v1900 = v829[2];
var<function> v2179_store: bool;
let v2179 = &v2179_store;
if v1900 {
let v1901 = v828[2];
*v2179 = v1901;

} else {
*v2179 = v1846;

}
let v1904 = *v2176;
let v1905 = *v2179;
let v1906 = vec4<bool>(v1904[0], v1904[1], v1905, v1904[3]);
*v2176 = v1906;
let v1907 = v829[3];
var<function> v2180_store: bool;
let v2180 = &v2180_store;
if v1907 {
let v1908 = v828[3];
*v2180 = v1908;

} else {
*v2180 = v1846;

}
let v1911 = *v2176;
let v1912 = *v2180;
let v1913 = vec4<bool>(v1911[0], v1911[1], v1911[2], v1912);
*v2176 = v1913;
let v1914 = *v2176;
let v831 = *v1844;
let v832 = select(v770, v831, v1914);
*v1844 = v832;

}
let v837 = *v1844;
*v648 = v837;
let v838 = *v1841;
let v839 = *v1844;
let v840 = max(v838, v839);
*v1841 = v840;
let v847 = v330 + v406;
*v1839 = v847;
let v852 = *v659;
var<function> v1915_store: vec4<f32>;
let v1915 = &v1915_store;
*v1915 = v852;
var<function> v1916_store: vec4<f32>;
let v1916 = &v1916_store;
*v1916 = v793;
var<function> v1917_store: vec4<f32>;
let v1917 = &v1917_store;
let v858 = *v1915;
*v1917 = v858;
if v797 {
let v860 = *v1785;
let v861 = i32(v860);
let v862 = *v1839;
let v863 = i32(v862);
let v864 = v861 - v863;
let v866 = select(v185, v864, v778);
let v867 = *v1838;
let v868 = i32(v867);
let v869 = *v1787;
let v870 = v868 + v869;
let v873 = v863 - v870;
let v874 = vec4<i32>(v873);
let v875 = *v1840;
let v876 = v874 + v875;
let v881 = v747 == v747;
var<function> v1918_store: vec4<bool>;
let v1918 = &v1918_store;
*v1918 = v881;
let v883 = v876 <= v747;
let v884 = *v1918;
let v1919 = false;
let v1920 = vec4<bool>(v1919);
var<function> v2181_store: vec4<bool>;
let v2181 = &v2181_store;
*v2181 = v1920;
var<function> v2182_store: vec4<bool>;
let v2182 = &v2182_store;
let v1923 = *v2181;
*v2182 = v1923;
let v1924 = v884[0];
var<function> v2183_store: bool;
let v2183 = &v2183_store;
if v1924 {
let v1925 = v883[0];
*v2183 = v1925;

} else {
*v2183 = v1919;

}
let v1928 = *v2182;
let v1929 = *v2183;
let v1930 = vec4<bool>(v1929, v1928[1], v1928[2], v1928[3]);
*v2182 = v1930;
let v1931 = v884[1];
var<function> v2184_store: bool;
let v2184 = &v2184_store;
if v1931 {
let v1932 = v883[1];
*v2184 = v1932;

} else {
*v2184 = v1919;

}
let v1935 = *v2182;
let v1936 = *v2184;
let v1937 = vec4<bool>(v1935[0], v1936, v1935[2], v1935[3]);
*v2182 = v1937;
let v1938 = v884[2];
var<function> v2185_store: bool;
let v2185 = &v2185_store;
if v1938 {
let v1939 = v883[2];
*v2185 = v1939;

} else {
*v2185 = v1919;

}
let v1942 = *v2182;
let v1943 = *v2185;
let v1944 = vec4<bool>(v1942[0], v1942[1], v1943, v1942[3]);
*v2182 = v1944;
let v1945 = v884[3];
var<function> v2186_store: bool;
let v2186 = &v2186_store;
if v1945 {
let v1946 = v883[3];
*v2186 = v1946;

} else {
*v2186 = v1919;

}
let v1949 = *v2182;
let v1950 = *v2186;
let v1951 = vec4<bool>(v1949[0], v1949[1], v1949[2], v1950);
*v2182 = v1951;
let v1952 = *v2182;
*v1918 = v1952;
var<function> v1953_store: vec4<bool>;
let v1953 = &v1953_store;
let v887 = *v1918;
*v1953 = v887;
let v888 = vec4<i32>(v866);
let v889 = *v1840;
let v890 = v889 < v888;
let v891 = *v1953;
var<function> v2187_store: vec4<bool>;
let v2187 = &v2187_store;
*v2187 = v1920;
var<function> v2188_store: vec4<bool>;
let v2188 = &v2188_store;
let v1958 = *v2187;
*v2188 = v1958;
let v1959 = v891[0];
var<function> v2189_store: bool;
let v2189 = &v2189_store;
if v1959 {
let v1960 = v890[0];
*v2189 = v1960;

} else {
*v2189 = v1919;

}
let v1963 = *v2188;
let v1964 = *v2189;
let v1965 = vec4<bool>(v1964, v1963[1], v1963[2], v1963[3]);
*v2188 = v1965;
let v1966 = v891[1];
var<function> v2190_store: bool;
let v2190 = &v2190_store;
if v1966 {
let v1967 = v890[1];
*v2190 = v1967;

} else {
*v2190 = v1919;

}
let v1970 = *v2188;
let v1971 = *v2190;
let v1972 = vec4<bool>(v1970[0], v1971, v1970[2], v1970[3]);
*v2188 = v1972;
let v1973 = v891[2];
var<function> v2191_store: bool;
let v2191 = &v2191_store;
if v1973 {
let v1974 = v890[2];
*v2191 = v1974;

} else {
*v2191 = v1919;

}
let v1977 = *v2188;
let v1978 = *v2191;
let v1979 = vec4<bool>(v1977[0], v1977[1], v1978, v1977[3]);
*v2188 = v1979;
let v1980 = v891[3];
var<function> v2192_store: bool;
let v2192 = &v2192_store;
if v1980 {
let v1981 = v890[3];
*v2192 = v1981;

} else {
*v2192 = v1919;

}
let v1984 = *v2188;
let v1985 = *v2192;
let v1986 = vec4<bool>(v1984[0], v1984[1], v1984[2], v1985);
*v2188 = v1986;
let v1987 = *v2188;
let v893 = *v1917;
let v894 = select(v770, v893, v1987);
*v1917 = v894;

}
let v899 = *v1917;
*v659 = v899;
let v900 = *v1841;
let v901 = *v1917;
let v902 = max(v900, v901);
*v1841 = v902;
let v908 = u32(8);
let v909 = v330 + v908;
*v1839 = v909;
let v914 = *v670;
var<function> v1988_store: vec4<f32>;
let v1988 = &v1988_store;
*v1988 = v914;
var<function> v1989_store: vec4<f32>;
let v1989 = &v1989_store;
*v1989 = v793;
var<function> v1990_store: vec4<f32>;
let v1990 = &v1990_store;
let v920 = *v1988;
*v1990 = v920;
if v797 {
let v922 = *v1785;
let v923 = i32(v922);
let v924 = *v1839;
let v925 = i32(v924);
let v926 = v923 - v925;
let v928 = select(v185, v926, v778);
let v929 = *v1838;
let v930 = i32(v929);
let v931 = *v1787;
let v932 = v930 + v931;
let v935 = v925 - v932;
let v936 = vec4<i32>(v935);
let v937 = *v1840;
let v938 = v936 + v937;
let v943 = v747 == v747;
var<function> v1991_store: vec4<bool>;
let v1991 = &v1991_store;
*v1991 = v943;
let v945 = v938 <= v747;
let v946 = *v1991;
let v1992 = false;
let v1993 = vec4<bool>(v1992);
var<function> v2193_store: vec4<bool>;
let v2193 = &v2193_store;
*v2193 = v1993;
var<function> v2194_store: vec4<bool>;
let v2194 = &v2194_store;
let v1996 = *v2193;
*v2194 = v1996;
let v1997 = v946[0];
var<function> v2195_store: bool;
let v2195 = &v2195_store;
if v1997 {
let v1998 = v945[0];
*v2195 = v1998;

} else {
*v2195 = v1992;

}
let v2001 = *v2194;
let v2002 = *v2195;
let v2003 = vec4<bool>(v2002, v2001[1], v2001[2], v2001[3]);
*v2194 = v2003;
let v2004 = v946[1];
var<function> v2196_store: bool;
let v2196 = &v2196_store;
if v2004 {
let v2005 = v945[1];
*v2196 = v2005;

} else {
*v2196 = v1992;

}
let v2008 = *v2194;
let v2009 = *v2196;
let v2010 = vec4<bool>(v2008[0], v2009, v2008[2], v2008[3]);
*v2194 = v2010;
let v2011 = v946[2];
var<function> v2197_store: bool;
let v2197 = &v2197_store;
if v2011 {
let v2012 = v945[2];
*v2197 = v2012;

} else {
*v2197 = v1992;

}
let v2015 = *v2194;
let v2016 = *v2197;
let v2017 = vec4<bool>(v2015[0], v2015[1], v2016, v2015[3]);
*v2194 = v2017;
let v2018 = v946[3];
var<function> v2198_store: bool;
let v2198 = &v2198_store;
if v2018 {
let v2019 = v945[3];
*v2198 = v2019;

} else {
*v2198 = v1992;

}
let v2022 = *v2194;
let v2023 = *v2198;
let v2024 = vec4<bool>(v2022[0], v2022[1], v2022[2], v2023);
*v2194 = v2024;
let v2025 = *v2194;
*v1991 = v2025;
var<function> v2026_store: vec4<bool>;
let v2026 = &v2026_store;
let v949 = *v1991;
*v2026 = v949;
let v950 = vec4<i32>(v928);
let v951 = *v1840;
let v952 = v951 < v950;
let v953 = *v2026;
var<function> v2199_store: vec4<bool>;
let v2199 = &v2199_store;
*v2199 = v1993;
var<function> v2200_store: vec4<bool>;
let v2200 = &v2200_store;
let v2031 = *v2199;
*v2200 = v2031;
let v2032 = v953[0];
var<function> v2201_store: bool;
let v2201 = &v2201_store;
if v2032 {
let v2033 = v952[0];
*v2201 = v2033;

} else {
*v2201 = v1992;

}
let v2036 = *v2200;
let v2037 = *v2201;
let v2038 = vec4<bool>(v2037, v2036[1], v2036[2], v2036[3]);
*v2200 = v2038;
let v2039 = v953[1];
var<function> v2202_store: bool;
let v2202 = &v2202_store;
if v2039 {
let v2040 = v952[1];
*v2202 = v2040;

} else {
*v2202 = v1992;

}
let v2043 = *v2200;
let v2044 = *v2202;
let v2045 = vec4<bool>(v2043[0], v2044, v2043[2], v2043[3]);
*v2200 = v2045;
let v2046 = v953[2];
var<function> v2203_store: bool;
let v2203 = &v2203_store;
if v2046 {
let v2047 = v952[2];
*v2203 = v2047;

} else {
*v2203 = v1992;

}
let v2050 = *v2200;
let v2051 = *v2203;
let v2052 = vec4<bool>(v2050[0], v2050[1], v2051, v2050[3]);
*v2200 = v2052;
let v2053 = v953[3];
var<function> v2204_store: bool;
let v2204 = &v2204_store;
if v2053 {
let v2054 = v952[3];
*v2204 = v2054;

} else {
*v2204 = v1992;

}
let v2057 = *v2200;
let v2058 = *v2204;
let v2059 = vec4<bool>(v2057[0], v2057[1], v2057[2], v2058);
*v2200 = v2059;
let v2060 = *v2200;
let v955 = *v1990;
let v956 = select(v770, v955, v2060);
*v1990 = v956;

}
let v961 = *v1990;
*v670 = v961;
let v962 = *v1841;
let v963 = *v1990;
let v964 = max(v962, v963);
*v1841 = v964;
let v970 = u32(12);
let v971 = v330 + v970;
*v1839 = v971;
let v976 = *v681;
var<function> v2061_store: vec4<f32>;
let v2061 = &v2061_store;
*v2061 = v976;
var<function> v2062_store: vec4<f32>;
let v2062 = &v2062_store;
*v2062 = v793;
var<function> v2063_store: vec4<f32>;
let v2063 = &v2063_store;
let v982 = *v2061;
*v2063 = v982;
if v797 {
let v984 = *v1785;
let v985 = i32(v984);
let v986 = *v1839;
let v987 = i32(v986);
let v988 = v985 - v987;
let v990 = select(v185, v988, v778);
let v991 = *v1838;
let v992 = i32(v991);
let v993 = *v1787;
let v994 = v992 + v993;
let v997 = v987 - v994;
let v998 = vec4<i32>(v997);
let v999 = *v1840;
let v1000 = v998 + v999;
let v1005 = v747 == v747;
var<function> v2064_store: vec4<bool>;
let v2064 = &v2064_store;
*v2064 = v1005;
let v1007 = v1000 <= v747;
let v1008 = *v2064;
let v2065 = false;
let v2066 = vec4<bool>(v2065);
var<function> v2205_store: vec4<bool>;
let v2205 = &v2205_store;
*v2205 = v2066;
var<function> v2206_store: vec4<bool>;
let v2206 = &v2206_store;
let v2069 = *v2205;
*v2206 = v2069;
let v2070 = v1008[0];
var<function> v2207_store: bool;
let v2207 = &v2207_store;
if v2070 {
let v2071 = v1007[0];
*v2207 = v2071;

} else {
*v2207 = v2065;

}
let v2074 = *v2206;
let v2075 = *v2207;
let v2076 = vec4<bool>(v2075, v2074[1], v2074[2], v2074[3]);
*v2206 = v2076;
let v2077 = v1008[1];
var<function> v2208_store: bool;
let v2208 = &v2208_store;
if v2077 {
let v2078 = v1007[1];
*v2208 = v2078;

} else {
*v2208 = v2065;

}
let v2081 = *v2206;
let v2082 = *v2208;
let v2083 = vec4<bool>(v2081[0], v2082, v2081[2], v2081[3]);
*v2206 = v2083;
let v2084 = v1008[2];
var<function> v2209_store: bool;
let v2209 = &v2209_store;
if v2084 {
let v2085 = v1007[2];
*v2209 = v2085;

} else {
*v2209 = v2065;

}
let v2088 = *v2206;
let v2089 = *v2209;
let v2090 = vec4<bool>(v2088[0], v2088[1], v2089, v2088[3]);
*v2206 = v2090;
let v2091 = v1008[3];
var<function> v2210_store: bool;
let v2210 = &v2210_store;
if v2091 {
let v2092 = v1007[3];
*v2210 = v2092;

} else {
*v2210 = v2065;

}
let v2095 = *v2206;
let v2096 = *v2210;
let v2097 = vec4<bool>(v2095[0], v2095[1], v2095[2], v2096);
*v2206 = v2097;
let v2098 = *v2206;
*v2064 = v2098;
var<function> v2099_store: vec4<bool>;
let v2099 = &v2099_store;
let v1011 = *v2064;
*v2099 = v1011;
let v1012 = vec4<i32>(v990);
let v1013 = *v1840;
let v1014 = v1013 < v1012;
let v1015 = *v2099;
var<function> v2211_store: vec4<bool>;
let v2211 = &v2211_store;
*v2211 = v2066;
var<function> v2212_store: vec4<bool>;
let v2212 = &v2212_store;
let v2104 = *v2211;
*v2212 = v2104;
let v2105 = v1015[0];
var<function> v2213_store: bool;
let v2213 = &v2213_store;
if v2105 {
let v2106 = v1014[0];
*v2213 = v2106;

} else {
*v2213 = v2065;

}
let v2109 = *v2212;
let v2110 = *v2213;
let v2111 = vec4<bool>(v2110, v2109[1], v2109[2], v2109[3]);
*v2212 = v2111;
let v2112 = v1015[1];
var<function> v2214_store: bool;
let v2214 = &v2214_store;
if v2112 {
let v2113 = v1014[1];
*v2214 = v2113;

} else {
*v2214 = v2065;

}
let v2116 = *v2212;
let v2117 = *v2214;
let v2118 = vec4<bool>(v2116[0], v2117, v2116[2], v2116[3]);
*v2212 = v2118;
let v2119 = v1015[2];
var<function> v2215_store: bool;
let v2215 = &v2215_store;
if v2119 {
let v2120 = v1014[2];
*v2215 = v2120;

} else {
*v2215 = v2065;

}
let v2123 = *v2212;
let v2124 = *v2215;
let v2125 = vec4<bool>(v2123[0], v2123[1], v2124, v2123[3]);
*v2212 = v2125;
let v2126 = v1015[3];
var<function> v2216_store: bool;
let v2216 = &v2216_store;
if v2126 {
let v2127 = v1014[3];
*v2216 = v2127;

} else {
*v2216 = v2065;

}
let v2130 = *v2212;
let v2131 = *v2216;
let v2132 = vec4<bool>(v2130[0], v2130[1], v2130[2], v2131);
*v2212 = v2132;
let v2133 = *v2212;
let v1017 = *v2063;
let v1018 = select(v770, v1017, v2133);
*v2063 = v1018;

}
let v1023 = *v2063;
*v681 = v1023;
let v1024 = *v1841;
let v1025 = *v2063;
let v1026 = max(v1024, v1025);
*v1841 = v1026;
let v1032 = *v277;
var<function> v2134_store: f32;
let v2134 = &v2134_store;
*v2134 = v1032;
let v1034 = *v1841;
let v1035 = v1034[0];
let v1036 = *v2134;
let v1037 = max(v1036, v1035);
*v2134 = v1037;
let v1038 = *v1841;
let v1039 = v1038[1];
let v1040 = *v2134;
let v1041 = max(v1040, v1039);
*v2134 = v1041;
let v1042 = *v1841;
let v1043 = v1042[2];
let v1044 = *v2134;
let v1045 = max(v1044, v1043);
*v2134 = v1045;
let v1046 = *v1841;
let v1047 = v1046[3];
let v1048 = *v2134;
let v1049 = max(v1048, v1047);
*v2134 = v1049;
let v1050 = *v2134;
let v1051 = v1032 - v1050;
let v1052 = exp(v1051);
let v1058 = *v285;
let v1059 = vec4<f32>(v1052);
let v1060 = v1058 * v1059;
var<function> v2135_store: vec4<f32>;
let v2135 = &v2135_store;
*v2135 = v1060;
let v1071 = *v648;
let v1072 = *v2134;
let v1073 = vec4<f32>(v1072);
let v1074 = v1071 - v1073;
let v1075 = exp(v1074);
var<function> v2136_store: vec4<f32>;
let v2136 = &v2136_store;
*v2136 = v1075;
if v797 {
let v1082 = *v648;
let v1083 = v1082 == v770;
let v1086 = *v2136;
let v1087 = select(v1086, v221, v1083);
*v2136 = v1087;

}
let v1088 = *v2135;
let v1089 = *v2136;
let v1090 = v1088 + v1089;
*v2135 = v1090;
let v1095 = *v2136;
*v648 = v1095;
let v1105 = *v659;
let v1106 = *v2134;
let v1107 = vec4<f32>(v1106);
let v1108 = v1105 - v1107;
let v1109 = exp(v1108);
var<function> v2137_store: vec4<f32>;
let v2137 = &v2137_store;
*v2137 = v1109;
if v797 {
let v1116 = *v659;
let v1117 = v1116 == v770;
let v1120 = *v2137;
let v1121 = select(v1120, v221, v1117);
*v2137 = v1121;

}
let v1122 = *v2135;
let v1123 = *v2137;
let v1124 = v1122 + v1123;
*v2135 = v1124;
let v1129 = *v2137;
*v659 = v1129;
let v1139 = *v670;
let v1140 = *v2134;
let v1141 = vec4<f32>(v1140);
let v1142 = v1139 - v1141;
let v1143 = exp(v1142);
var<function> v2138_store: vec4<f32>;
let v2138 = &v2138_store;
*v2138 = v1143;
if v797 {
let v1150 = *v670;
let v1151 = v1150 == v770;
let v1154 = *v2138;
let v1155 = select(v1154, v221, v1151);
*v2138 = v1155;

}
let v1156 = *v2135;
let v1157 = *v2138;
let v1158 = v1156 + v1157;
*v2135 = v1158;
let v1163 = *v2138;
*v670 = v1163;
let v1173 = *v681;
let v1174 = *v2134;
let v1175 = vec4<f32>(v1174);
let v1176 = v1173 - v1175;
let v1177 = exp(v1176);
var<function> v2139_store: vec4<f32>;
let v2139 = &v2139_store;
*v2139 = v1177;
if v797 {
let v1184 = *v681;
let v1185 = v1184 == v770;
let v1188 = *v2139;
let v1189 = select(v1188, v221, v1185);
*v2139 = v1189;

}
let v1190 = *v2135;
let v1191 = *v2139;
let v1192 = v1190 + v1191;
*v2135 = v1192;
let v1197 = *v2139;
*v681 = v1197;
let v1203 = *v2135;
*v285 = v1203;
let v1204 = *v2134;
let v1205 = v1204 > v1032;
if v1205 {
for(var v1209: u32 = v3; v1209 < v150; v1209 += v96) {
let v1219 = &(*v1822)[v1209];
let v1220 = *v1219;
let v1221 = v1220 * v1059;
*v1219 = v1221;

}
let v1227 = *v2134;
*v277 = v1227;

}
let v1229 = v386 + v239;
let v1231 = v1229 / v406;
var<function> v2141_store: array<vec4<f32>, 2>= array<vec4<f32>, 2>();
let v2141 = &v2141_store;
let v1246 = &(*v1822)[v3];
let v1247 = *v1246;
let v1252 = &(*v2141)[v3];
*v1252 = v1247;
let v1261 = &(*v1822)[v96];
let v1262 = *v1261;
let v1267 = &(*v2141)[v96];
*v1267 = v1262;
for(var v1271: u32 = v3; v1271 < v406; v1271 += v96) {
let v1274 = v1271 * v406;
let v1278 = v1274 * v150;
let v1279 = v1231 + v1278;
let v1289 = &(*v2391)[v1279];
let v1290 = *v1289;
let v1291 = bitcast<vec4<f32>>(v1290);
let v1297 = &(*v1834)[v1271];
let v1298 = *v1297;
let v1299 = v1298[0];
let v1300 = vec4<f32>(v1299);
var<function> v2143_store: vec4<f32>;
let v2143 = &v2143_store;
*v2143 = v1291;
let v1302 = v1300 == v221;
let v1303 = *v2143;
let v1304 = select(v1303, v221, v1302);
*v2143 = v1304;
let v1310 = *v1252;
let v1311 = *v2143;
let v1312 = fma(v1300, v1311, v1310);
*v1252 = v1312;
let v1319 = v1279 + v96;
let v1323 = &(*v2391)[v1319];
let v1324 = *v1323;
let v1325 = bitcast<vec4<f32>>(v1324);
let v1332 = *v1297;
let v1333 = v1332[0];
let v1334 = vec4<f32>(v1333);
var<function> v2144_store: vec4<f32>;
let v2144 = &v2144_store;
*v2144 = v1325;
let v1336 = v1334 == v221;
let v1337 = *v2144;
let v1338 = select(v1337, v221, v1336);
*v2144 = v1338;
let v1344 = *v1267;
let v1345 = *v2144;
let v1346 = fma(v1334, v1345, v1344);
*v1267 = v1346;
let v1355 = v1274 + v96;
let v1357 = v1355 * v150;
let v1358 = v1231 + v1357;
let v1368 = &(*v2391)[v1358];
let v1369 = *v1368;
let v1370 = bitcast<vec4<f32>>(v1369);
let v1377 = *v1297;
let v1378 = v1377[1];
let v1379 = vec4<f32>(v1378);
var<function> v2145_store: vec4<f32>;
let v2145 = &v2145_store;
*v2145 = v1370;
let v1381 = v1379 == v221;
let v1382 = *v2145;
let v1383 = select(v1382, v221, v1381);
*v2145 = v1383;
let v1389 = *v1252;
let v1390 = *v2145;
let v1391 = fma(v1379, v1390, v1389);
*v1252 = v1391;
let v1398 = v1358 + v96;
let v1402 = &(*v2391)[v1398];
let v1403 = *v1402;
let v1404 = bitcast<vec4<f32>>(v1403);
let v1411 = *v1297;
let v1412 = v1411[1];
let v1413 = vec4<f32>(v1412);
var<function> v2146_store: vec4<f32>;
let v2146 = &v2146_store;
*v2146 = v1404;
let v1415 = v1413 == v221;
let v1416 = *v2146;
let v1417 = select(v1416, v221, v1415);
*v2146 = v1417;
let v1423 = *v1267;
let v1424 = *v2146;
let v1425 = fma(v1413, v1424, v1423);
*v1267 = v1425;
let v1434 = v1274 + v150;
let v1436 = v1434 * v150;
let v1437 = v1231 + v1436;
let v1447 = &(*v2391)[v1437];
let v1448 = *v1447;
let v1449 = bitcast<vec4<f32>>(v1448);
let v1456 = *v1297;
let v1457 = v1456[2];
let v1458 = vec4<f32>(v1457);
var<function> v2147_store: vec4<f32>;
let v2147 = &v2147_store;
*v2147 = v1449;
let v1460 = v1458 == v221;
let v1461 = *v2147;
let v1462 = select(v1461, v221, v1460);
*v2147 = v1462;
let v1468 = *v1252;
let v1469 = *v2147;
let v1470 = fma(v1458, v1469, v1468);
*v1252 = v1470;
let v1477 = v1437 + v96;
let v1481 = &(*v2391)[v1477];
let v1482 = *v1481;
let v1483 = bitcast<vec4<f32>>(v1482);
let v1490 = *v1297;
let v1491 = v1490[2];
let v1492 = vec4<f32>(v1491);
var<function> v2148_store: vec4<f32>;
let v2148 = &v2148_store;
*v2148 = v1483;
let v1494 = v1492 == v221;
let v1495 = *v2148;
let v1496 = select(v1495, v221, v1494);
*v2148 = v1496;
let v1502 = *v1267;
let v1503 = *v2148;
let v1504 = fma(v1492, v1503, v1502);
*v1267 = v1504;
let v1513 = v1274 + v458;
let v1515 = v1513 * v150;
let v1516 = v1231 + v1515;
let v1526 = &(*v2391)[v1516];
let v1527 = *v1526;
let v1528 = bitcast<vec4<f32>>(v1527);
let v1535 = *v1297;
let v1536 = v1535[3];
let v1537 = vec4<f32>(v1536);
var<function> v2149_store: vec4<f32>;
let v2149 = &v2149_store;
*v2149 = v1528;
let v1539 = v1537 == v221;
let v1540 = *v2149;
let v1541 = select(v1540, v221, v1539);
*v2149 = v1541;
let v1547 = *v1252;
let v1548 = *v2149;
let v1549 = fma(v1537, v1548, v1547);
*v1252 = v1549;
let v1556 = v1516 + v96;
let v1560 = &(*v2391)[v1556];
let v1561 = *v1560;
let v1562 = bitcast<vec4<f32>>(v1561);
let v1569 = *v1297;
let v1570 = v1569[3];
let v1571 = vec4<f32>(v1570);
var<function> v2150_store: vec4<f32>;
let v2150 = &v2150_store;
*v2150 = v1562;
let v1573 = v1571 == v221;
let v1574 = *v2150;
let v1575 = select(v1574, v221, v1573);
*v2150 = v1575;
let v1581 = *v1267;
let v1582 = *v2150;
let v1583 = fma(v1571, v1582, v1581);
*v1267 = v1583;

}
let v1594 = *v1252;
*v1246 = v1594;
let v1609 = *v1267;
*v1261 = v1609;

}
let v1619 = *v1825;
let v1621 = v1619 + v96;
*v1825 = v1621;
let v1624 = *v1825;
let v1625 = v1624 == v378;
if v1625 {
*v1825 = v3;
let v1627 = *v1824;
let v1629 = v1627 + v96;
*v1824 = v1629;

}

}
let v1635 = *v285;
var<function> v2217_store: f32;
let v2217 = &v2217_store;
*v2217 = v220;
let v2154 = v1635[0];
let v2155 = *v2217;
let v2156 = v2155 + v2154;
*v2217 = v2156;
let v2157 = v1635[1];
let v2158 = *v2217;
let v2159 = v2158 + v2157;
*v2217 = v2159;
let v2160 = v1635[2];
let v2161 = *v2217;
let v2162 = v2161 + v2160;
*v2217 = v2162;
let v2163 = v1635[3];
let v2164 = *v2217;
let v2165 = v2164 + v2163;
*v2217 = v2165;
let v2166 = *v2217;
let v1642 = *v218;
let v1648 = *v277;
let v1649 = max(v1642, v1648);
let v1650 = v1642 - v1649;
let v1651 = exp(v1650);
let v1652 = v1648 - v1649;
let v1653 = exp(v1652);
*v218 = v1649;
let v1664 = *v226;
let v1665 = v1664[0];
let v1667 = v2166 * v1653;
let v2385 = fma(v1665, v1651, v1667);
let v1669 = vec4<f32>(v2385);
*v226 = v1669;
for(var v1678: u32 = v3; v1678 < v150; v1678 += v96) {
let v1687 = &(*v1817)[v1678];
let v1688 = *v1687;
let v1692 = &(*v1822)[v1678];
let v1693 = *v1692;
let v1694 = vec4<f32>(v1653);
let v1695 = vec4<f32>(v1651);
let v1696 = v1688 * v1695;
let v1697 = fma(v1693, v1694, v1696);
*v1687 = v1697;

}

}
let v1704 = v113 < v95;
if v1704 {
let v1705 = *v1781;
let v1706 = v110 * v1705;
let v1712 = *v142;
let v1713 = v1706 + v1712;
let v1714 = *v1784;
let v1715 = v1713 * v1714;
let v1721 = *v149;
let v1722 = v1715 + v1721;
let v1723 = v1722 * v62;
let v1724 = v1723 + v106;
let v1730 = *v218;
let v1732 = v150 * v1724;
let v1736 = &(*v2386)[v1732];
*v1736 = v1730;
let v1742 = *v226;
let v1743 = v1742[0];
let v1747 = v1732 + v96;
let v1751 = &(*v2386)[v1747];
*v1751 = v1743;
for(var v1755: u32 = v3; v1755 < v150; v1755 += v96) {
let v1764 = &(*v1817)[v1755];
let v1765 = *v1764;
let v1767 = v1724 * v150;
let v1768 = v1767 + v1755;
let v1772 = &(*v2387)[v1768];
*v1772 = v1765;

}

}

}
return;

}
