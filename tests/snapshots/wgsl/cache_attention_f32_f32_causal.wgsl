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
fn cache_attention_f32_f32_causal(@builtin(workgroup_id) v2573: vec3<u32>, @builtin(num_workgroups) v2575: vec3<u32>, @builtin(local_invocation_index) v2582: u32) {
let v2746 = &v25;
let v2747 = &v21;
let v2748 = &v17;
let v2749 = &v13;
let v2750 = &v9;
let v2751 = &v5;
let v2752 = &v1;
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
var<function> v2106_store: u32;
let v2106 = &v2106_store;
*v2106 = v29;
var<function> v2107_store: u32;
let v2107 = &v2107_store;
*v2107 = v30;
var<function> v2108_store: u32;
let v2108 = &v2108_store;
*v2108 = v31;
var<function> v2109_store: u32;
let v2109 = &v2109_store;
*v2109 = v32;
var<function> v2110_store: u32;
let v2110 = &v2110_store;
*v2110 = v33;
var<function> v2111_store: f32;
let v2111 = &v2111_store;
*v2111 = v34;
var<function> v2112_store: i32;
let v2112 = &v2112_store;
*v2112 = v35;
var<function> v2113_store: i32;
let v2113 = &v2113_store;
*v2113 = v36;
var<function> v2114_store: i32;
let v2114 = &v2114_store;
*v2114 = v37;
var<function> v2115_store: i32;
let v2115 = &v2115_store;
*v2115 = v38;
var<function> v2116_store: i32;
let v2116 = &v2116_store;
*v2116 = v39;
var<function> v2117_store: i32;
let v2117 = &v2117_store;
*v2117 = v40;
var<function> v2118_store: i32;
let v2118 = &v2118_store;
*v2118 = v41;
var<function> v2119_store: i32;
let v2119 = &v2119_store;
*v2119 = v42;
var<function> v2120_store: u32;
let v2120 = &v2120_store;
*v2120 = v43;
var<function> v2121_store: f32;
let v2121 = &v2121_store;
*v2121 = v44;
var<function> v2122_store: u32;
let v2122 = &v2122_store;
*v2122 = v45;
var<function> v2123_store: u32;
let v2123 = &v2123_store;
*v2123 = v46;
var<function> v2124_store: u32;
let v2124 = &v2124_store;
*v2124 = v47;
var<function> v2125_store: u32;
let v2125 = &v2125_store;
*v2125 = v48;
var<function> v2126_store: u32;
let v2126 = &v2126_store;
*v2126 = v49;
var<function> v2127_store: u32;
let v2127 = &v2127_store;
*v2127 = v50;
var<function> v2128_store: u32;
let v2128 = &v2128_store;
*v2128 = v51;
var<function> v2129_store: u32;
let v2129 = &v2129_store;
*v2129 = v52;
var<function> v2130_store: u32;
let v2130 = &v2130_store;
*v2130 = v53;
var<function> v2131_store: u32;
let v2131 = &v2131_store;
*v2131 = v54;
var<function> v2132_store: u32;
let v2132 = &v2132_store;
*v2132 = v55;
var<function> v2133_store: u32;
let v2133 = &v2133_store;
*v2133 = v56;
let v93 = *v2109;
let v94 = *v2108;
let v95 = v93 * v94;
let v96 = u32(1);
let v97 = v95 + v96;
let v99 = v97 - v96;
let v2574 = v2573[2];
let v2551 = u32(v2574);
let v2576 = v2575[1];
let v2553 = u32(v2576);
let v2554 = v2551 * v2553;
let v2577 = v2575[0];
let v2556 = u32(v2577);
let v2557 = v2554 * v2556;
let v2578 = v2573[1];
let v2559 = u32(v2578);
let v2562 = v2559 * v2556;
let v2563 = v2557 + v2562;
let v2580 = v2573[0];
let v2565 = u32(v2580);
let v2566 = v2563 + v2565;
let v2584 = u32(64);
let v2569 = v2566 * v2584;
let v2583 = v2582;
let v2571 = u32(v2583);
let v2572 = v2569 + v2571;
for(var v103: u32 = v2572; v103 < v61; v103 += v64) {
let v105 = v103 / v99;
let v106 = v105 % v62;
let v108 = v105 / v62;
let v109 = *v2107;
let v110 = v108 / v109;
let v112 = v108 % v109;
let v113 = v103 % v99;
let v116 = u32(2);
let v117 = v116 * v110;
let v121 = &(*v2749)[v117];
let v122 = *v121;
let v123 = i32(v122);
*v2112 = v123;
let v127 = v117 + v96;
let v131 = &(*v2749)[v127];
let v132 = *v131;
let v133 = u32(v132);
let v134 = v60 * v58;
let v135 = min(v133, v134);
*v2110 = v135;
let v137 = v113 + v96;
let v138 = min(v137, v95);
let v140 = v138 - v96;
let v141 = *v2108;
let v142 = v140 / v141;
let v148 = i32(v142);
let v149 = *v2112;
let v150 = v148 + v149;
let v151 = i32(0);
var<function> v2135_store: i32;
let v2135 = &v2135_store;
*v2135 = v151;
let v154 = *v2110;
let v155 = i32(v154);
var<function> v2136_store: i32;
let v2136 = &v2136_store;
*v2136 = v155;
let v157 = i32(1);
let v158 = v150 + v157;
let v159 = *v2136;
let v160 = min(v159, v158);
*v2136 = v160;
let v161 = *v2136;
let v163 = max(v161, v151);
let v164 = *v2135;
let v165 = min(v164, v163);
let v166 = u32(v165);
let v167 = u32(v163);
var<function> v2137_store: array<f32, 1>= array<f32, 1>();
let v2137 = &v2137_store;
var<function> v2138_store: array<vec4<f32>, 1>= array<vec4<f32>, 1>();
let v2138 = &v2138_store;
var<function> v2139_store: array<vec4<f32>, 2>= array<vec4<f32>, 2>();
let v2139 = &v2139_store;
let v184 = &(*v2137)[v3];
let v185 = f32(-3.4028234663852886e38);
*v184 = v185;
let v186 = f32(0.0);
let v187 = vec4<f32>(v186);
let v192 = &(*v2138)[v3];
*v192 = v187;
for(var v196: u32 = v3; v196 < v116; v196 += v96) {
let v203 = &(*v2139)[v196];
*v203 = v187;

}
let v204 = v106 * v63;
let v205 = u32(256);
let v206 = v166 / v205;
let v207 = max(v204, v206);
let v209 = v106 + v96;
let v210 = v209 * v63;
let v212 = v167 + v205;
let v214 = v212 - v96;
let v216 = v214 / v205;
let v217 = min(v210, v216);
for(var v219: u32 = v207; v219 < v217; v219 += v96) {
let v222 = v219 * v205;
let v223 = max(v166, v222);
let v225 = v222 + v205;
let v226 = min(v167, v225);
var<function> v2142_store: array<f32, 1>= array<f32, 1>();
let v2142 = &v2142_store;
var<function> v2143_store: array<vec4<f32>, 1>= array<vec4<f32>, 1>();
let v2143 = &v2143_store;
var<function> v2144_store: array<vec4<f32>, 2>= array<vec4<f32>, 2>();
let v2144 = &v2144_store;
let v243 = &(*v2142)[v3];
*v243 = v185;
let v251 = &(*v2143)[v3];
*v251 = v187;
for(var v255: u32 = v3; v255 < v116; v255 += v96) {
let v262 = &(*v2144)[v255];
*v262 = v187;

}
let v268 = *v2108;
let v269 = v113 / v268;
let v271 = v140 / v268;
let v272 = i32(v271);
let v273 = *v2112;
let v274 = v272 + v273;
let v275 = *v2110;
let v276 = i32(v275);
let v277 = v274 < v276;
let v278 = u32(16);
let v279 = v223 / v278;
let v281 = v226 + v278;
let v283 = v281 - v96;
let v285 = v283 / v278;
for(var v287: u32 = v279; v287 < v285; v287 += v96) {
let v290 = v287 * v278;
let v291 = u32(15);
let v292 = v290 + v291;
let v293 = i32(v290);
let v294 = i32(v292);
let v295 = i32(v269);
let v296 = *v2112;
let v297 = v295 + v296;
let v300 = v272 + v296;
let v301 = v297 - v294;
let v302 = v300 - v293;
let v303 = true;
var<function> v2147_store: bool;
let v2147 = &v2147_store;
*v2147 = v303;
var<function> v2148_store: bool;
let v2148 = &v2148_store;
*v2148 = v303;
let v310 = v302 >= v151;
let v311 = *v2147;
let v312 = v311 && v310;
*v2147 = v312;
let v314 = v301 >= v151;
let v315 = *v2148;
let v316 = v315 && v314;
*v2148 = v316;
let v317 = u32(0);
var<function> v2149_store: u32;
let v2149 = &v2149_store;
*v2149 = v317;
let v320 = *v2147;
if v320 {
let v321 = u32(1);
*v2149 = v321;
let v322 = *v2148;
if v322 {
let v323 = u32(2);
*v2149 = v323;

}

}
let v324 = v290 / v58;
var<function> v2150_store: u32;
let v2150 = &v2150_store;
*v2150 = v57;
let v326 = v324 < v60;
if v326 {
let v327 = v110 * v60;
let v328 = v327 + v324;
let v332 = &(*v2750)[v328];
let v333 = *v332;
let v334 = u32(v333);
let v335 = min(v334, v57);
*v2150 = v335;

}
let v337 = v58 / v278;
let v338 = *v2150;
let v339 = v338 * v59;
let v340 = v339 + v112;
let v341 = v340 * v337;
let v342 = v290 % v58;
let v344 = v342 / v278;
let v345 = v341 + v344;
let v346 = u32(384);
let v347 = v345 * v346;
let v348 = *v2149;
let v350 = v348 > v317;
let v352 = v338 < v57;
let v353 = v350 && v352;
if v353 {
let v355 = u32(2);
let v356 = v348 == v355;
let v357 = *v2110;
let v358 = v292 < v357;
let v359 = v356 && v358;
let v360 = v359 && v277;
var<function> v2151_store: array<u32, 1>= array<u32, 1>();
let v2151 = &v2151_store;
var<function> v2152_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v2152 = &v2152_store;
let v367 = u32(4);
let v372 = v95 - v96;
let v373 = min(v113, v372);
let v374 = *v2108;
let v375 = v112 * v374;
let v377 = v373 % v374;
let v378 = v375 + v377;
let v380 = v373 / v374;
var<function> v2153_store: i32;
let v2153 = &v2153_store;
*v2153 = v151;
*v2153 = v151;
let v385 = *v2106;
let v386 = v110 * v385;
let v387 = v386 + v378;
let v388 = *v2109;
let v389 = v387 * v388;
let v390 = v389 + v380;
let v392 = v390 * v278;
let v397 = &(*v2151)[v3];
*v397 = v392;
let v404 = &(*v2152)[v3];
*v404 = v187;
let v411 = &(*v2152)[v96];
*v411 = v187;
let v418 = &(*v2152)[v116];
*v418 = v187;
let v423 = u32(3);
let v425 = &(*v2152)[v423];
*v425 = v187;
for(var v429: u32 = v3; v429 < v278; v429 += v96) {
let v432 = v347 / v367;
let v434 = v429 * v367;
let v435 = v432 + v434;
let v441 = &(*v2751)[v435];
let v442 = *v441;
let v443 = bitcast<vec4<f32>>(v442);
let v449 = *v397;
let v452 = v449 + v429;
let v458 = &(*v2752)[v452];
let v459 = *v458;
let v460 = vec4<f32>(v459);
let v466 = *v404;
let v467 = fma(v460, v443, v466);
*v404 = v467;
let v479 = v435 + v96;
let v483 = &(*v2751)[v479];
let v484 = *v483;
let v485 = bitcast<vec4<f32>>(v484);
let v491 = *v397;
let v494 = v491 + v429;
let v500 = &(*v2752)[v494];
let v501 = *v500;
let v502 = vec4<f32>(v501);
let v508 = *v411;
let v509 = fma(v502, v485, v508);
*v411 = v509;
let v521 = v435 + v116;
let v525 = &(*v2751)[v521];
let v526 = *v525;
let v527 = bitcast<vec4<f32>>(v526);
let v533 = *v397;
let v536 = v533 + v429;
let v542 = &(*v2752)[v536];
let v543 = *v542;
let v544 = vec4<f32>(v543);
let v550 = *v418;
let v551 = fma(v544, v527, v550);
*v418 = v551;
let v563 = v435 + v423;
let v567 = &(*v2751)[v563];
let v568 = *v567;
let v569 = bitcast<vec4<f32>>(v568);
let v575 = *v397;
let v578 = v575 + v429;
let v584 = &(*v2752)[v578];
let v585 = *v584;
let v586 = vec4<f32>(v585);
let v592 = *v425;
let v593 = fma(v586, v569, v592);
*v425 = v593;

}
var<function> v2155_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v2155 = &v2155_store;
let v608 = *v404;
let v613 = &(*v2155)[v3];
*v613 = v608;
let v619 = *v411;
let v624 = &(*v2155)[v96];
*v624 = v619;
let v630 = *v418;
let v635 = &(*v2155)[v116];
*v635 = v630;
let v641 = *v425;
let v646 = &(*v2155)[v423];
*v646 = v641;
let v652 = *v2111;
let v653 = vec4<f32>(v652);
let v658 = *v613;
let v659 = v658 * v653;
*v613 = v659;
let v665 = *v2111;
let v666 = vec4<f32>(v665);
let v671 = *v624;
let v672 = v671 * v666;
*v624 = v672;
let v678 = *v2111;
let v679 = vec4<f32>(v678);
let v684 = *v635;
let v685 = v684 * v679;
*v635 = v685;
let v691 = *v2111;
let v692 = vec4<f32>(v691);
let v697 = *v646;
let v698 = v697 * v692;
*v646 = v698;
let v704 = *v2108;
let v705 = v112 * v704;
let v707 = v373 % v704;
let v708 = v705 + v707;
let v710 = v373 / v704;
let v712 = vec4<i32>(v151);
var<function> v2156_store: vec4<i32>;
let v2156 = &v2156_store;
*v2156 = v712;
let v714 = *v2156;
let v716 = vec4<i32>(v151, v714[1], v714[2], v714[3]);
*v2156 = v716;
let v717 = *v2156;
let v719 = vec4<i32>(v717[0], v157, v717[2], v717[3]);
*v2156 = v719;
let v720 = *v2156;
let v721 = i32(2);
let v722 = vec4<i32>(v720[0], v720[1], v721, v720[3]);
*v2156 = v722;
let v723 = *v2156;
let v724 = i32(3);
let v725 = vec4<i32>(v723[0], v723[1], v723[2], v724);
*v2156 = v725;
var<function> v2157_store: u32;
let v2157 = &v2157_store;
*v2157 = v110;
var<function> v2158_store: u32;
let v2158 = &v2158_store;
*v2158 = v708;
var<function> v2159_store: u32;
let v2159 = &v2159_store;
*v2159 = v710;
var<function> v2160_store: u32;
let v2160 = &v2160_store;
*v2160 = v3;
var<function> v2161_store: vec4<i32>;
let v2161 = &v2161_store;
let v733 = *v2156;
*v2161 = v733;
let v735 = vec4<f32>(v185);
var<function> v2162_store: vec4<f32>;
let v2162 = &v2162_store;
*v2162 = v735;
let v737 = *v2159;
let v738 = i32(v737);
let v739 = *v2112;
let v740 = v738 + v739;
let v741 = *v2110;
let v742 = i32(v741);
let v743 = v740 < v742;
*v2160 = v290;
let v755 = *v613;
var<function> v2163_store: vec4<f32>;
let v2163 = &v2163_store;
*v2163 = v755;
let v757 = f32(1.0);
let v758 = vec4<f32>(v757);
var<function> v2164_store: vec4<f32>;
let v2164 = &v2164_store;
*v2164 = v758;
var<function> v2165_store: vec4<f32>;
let v2165 = &v2165_store;
let v761 = *v2163;
*v2165 = v761;
let v762 = !v360;
if v762 {
let v763 = *v2110;
let v764 = i32(v763);
let v765 = *v2160;
let v766 = i32(v765);
let v767 = v764 - v766;
let v769 = select(v151, v767, v743);
let v770 = *v2159;
let v771 = i32(v770);
let v772 = *v2112;
let v773 = v771 + v772;
let v776 = v766 - v773;
let v777 = vec4<i32>(v776);
let v778 = *v2161;
let v779 = v777 + v778;
let v784 = v712 == v712;
var<function> v2166_store: vec4<bool>;
let v2166 = &v2166_store;
*v2166 = v784;
let v786 = v779 <= v712;
let v787 = *v2166;
let v2167 = false;
let v2168 = vec4<bool>(v2167);
var<function> v2501_store: vec4<bool>;
let v2501 = &v2501_store;
*v2501 = v2168;
var<function> v2502_store: vec4<bool>;
let v2502 = &v2502_store;
let v2171 = *v2501;
*v2502 = v2171;
let v2172 = v787[0];
var<function> v2503_store: bool;
let v2503 = &v2503_store;
if v2172 {
let v2173 = v786[0];
*v2503 = v2173;

} else {
*v2503 = v2167;

}
let v2176 = *v2502;
let v2177 = *v2503;
let v2178 = vec4<bool>(v2177, v2176[1], v2176[2], v2176[3]);
*v2502 = v2178;
let v2179 = v787[1];
var<function> v2504_store: bool;
let v2504 = &v2504_store;
if v2179 {
let v2180 = v786[1];
*v2504 = v2180;

} else {
*v2504 = v2167;

}
let v2183 = *v2502;
let v2184 = *v2504;
let v2185 = vec4<bool>(v2183[0], v2184, v2183[2], v2183[3]);
*v2502 = v2185;
let v2186 = v787[2];
var<function> v2505_store: bool;
let v2505 = &v2505_store;
if v2186 {
let v2187 = v786[2];
*v2505 = v2187;

} else {
*v2505 = v2167;

}
let v2190 = *v2502;
let v2191 = *v2505;
let v2192 = vec4<bool>(v2190[0], v2190[1], v2191, v2190[3]);
*v2502 = v2192;
let v2193 = v787[3];
var<function> v2506_store: bool;
let v2506 = &v2506_store;
if v2193 {
let v2194 = v786[3];
*v2506 = v2194;

} else {
*v2506 = v2167;

}
let v2197 = *v2502;
let v2198 = *v2506;
let v2199 = vec4<bool>(v2197[0], v2197[1], v2197[2], v2198);
*v2502 = v2199;
let v2200 = *v2502;
*v2166 = v2200;
var<function> v2201_store: vec4<bool>;
let v2201 = &v2201_store;
let v790 = *v2166;
*v2201 = v790;
let v791 = vec4<i32>(v769);
let v792 = *v2161;
let v793 = v792 < v791;
let v794 = *v2201;
var<function> v2507_store: vec4<bool>;
let v2507 = &v2507_store;
*v2507 = v2168;
var<function> v2508_store: vec4<bool>;
let v2508 = &v2508_store;
let v2206 = *v2507;
*v2508 = v2206;
let v2207 = v794[0];
var<function> v2509_store: bool;
let v2509 = &v2509_store;
if v2207 {
let v2208 = v793[0];
*v2509 = v2208;

} else {
*v2509 = v2167;

}
let v2211 = *v2508;
let v2212 = *v2509;
let v2213 = vec4<bool>(v2212, v2211[1], v2211[2], v2211[3]);
*v2508 = v2213;
let v2214 = v794[1];
var<function> v2510_store: bool;
let v2510 = &v2510_store;
if v2214 {
let v2215 = v793[1];
*v2510 = v2215;

} else {
*v2510 = v2167;

}
let v2218 = *v2508;
let v2219 = *v2510;
let v2220 = vec4<bool>(v2218[0], v2219, v2218[2], v2218[3]);
*v2508 = v2220;
let v2221 = v794[2];
var<function> v2511_store: bool;
let v2511 = &v2511_store;
if v2221 {
let v2222 = v793[2];
*v2511 = v2222;

} else {
*v2511 = v2167;

}
let v2225 = *v2508;
let v2226 = *v2511;
let v2227 = vec4<bool>(v2225[0], v2225[1], v2226, v2225[3]);
*v2508 = v2227;
let v2228 = v794[3];
var<function> v2512_store: bool;
let v2512 = &v2512_store;
if v2228 {
let v2229 = v793[3];
*v2512 = v2229;

} else {
*v2512 = v2167;

}
let v2232 = *v2508;
let v2233 = *v2512;
let v2234 = vec4<bool>(v2232[0], v2232[1], v2232[2], v2233);
*v2508 = v2234;
let v2235 = *v2508;
let v796 = *v2165;
let v797 = select(v735, v796, v2235);
*v2165 = v797;

}
let v802 = *v2165;
*v613 = v802;
let v803 = *v2162;
let v804 = *v2165;
let v805 = max(v803, v804);
*v2162 = v805;
let v812 = v290 + v367;
*v2160 = v812;
let v817 = *v624;
var<function> v2236_store: vec4<f32>;
let v2236 = &v2236_store;
*v2236 = v817;
var<function> v2237_store: vec4<f32>;
let v2237 = &v2237_store;
*v2237 = v758;
var<function> v2238_store: vec4<f32>;
let v2238 = &v2238_store;
let v823 = *v2236;
*v2238 = v823;
if v762 {
let v825 = *v2110;
let v826 = i32(v825);
let v827 = *v2160;
let v828 = i32(v827);
let v829 = v826 - v828;
let v831 = select(v151, v829, v743);
let v832 = *v2159;
let v833 = i32(v832);
let v834 = *v2112;
let v835 = v833 + v834;
let v838 = v828 - v835;
let v839 = vec4<i32>(v838);
let v840 = *v2161;
let v841 = v839 + v840;
let v846 = v712 == v712;
var<function> v2239_store: vec4<bool>;
let v2239 = &v2239_store;
*v2239 = v846;
let v848 = v841 <= v712;
let v849 = *v2239;
let v2240 = false;
let v2241 = vec4<bool>(v2240);
var<function> v2513_store: vec4<bool>;
let v2513 = &v2513_store;
*v2513 = v2241;
var<function> v2514_store: vec4<bool>;
let v2514 = &v2514_store;
let v2244 = *v2513;
*v2514 = v2244;
let v2245 = v849[0];
var<function> v2515_store: bool;
let v2515 = &v2515_store;
if v2245 {
let v2246 = v848[0];
*v2515 = v2246;

} else {
*v2515 = v2240;

}
let v2249 = *v2514;
let v2250 = *v2515;
let v2251 = vec4<bool>(v2250, v2249[1], v2249[2], v2249[3]);
*v2514 = v2251;
let v2252 = v849[1];
var<function> v2516_store: bool;
let v2516 = &v2516_store;
if v2252 {
let v2253 = v848[1];
*v2516 = v2253;

} else {
*v2516 = v2240;

}
let v2256 = *v2514;
let v2257 = *v2516;
let v2258 = vec4<bool>(v2256[0], v2257, v2256[2], v2256[3]);
*v2514 = v2258;
let v2259 = v849[2];
var<function> v2517_store: bool;
let v2517 = &v2517_store;
if v2259 {
let v2260 = v848[2];
*v2517 = v2260;

} else {
*v2517 = v2240;

}
let v2263 = *v2514;
let v2264 = *v2517;
let v2265 = vec4<bool>(v2263[0], v2263[1], v2264, v2263[3]);
*v2514 = v2265;
let v2266 = v849[3];
var<function> v2518_store: bool;
let v2518 = &v2518_store;
if v2266 {
let v2267 = v848[3];
*v2518 = v2267;

} else {
*v2518 = v2240;

}
let v2270 = *v2514;
let v2271 = *v2518;
let v2272 = vec4<bool>(v2270[0], v2270[1], v2270[2], v2271);
*v2514 = v2272;
let v2273 = *v2514;
*v2239 = v2273;
var<function> v2274_store: vec4<bool>;
let v2274 = &v2274_store;
let v852 = *v2239;
*v2274 = v852;
let v853 = vec4<i32>(v831);
let v854 = *v2161;
let v855 = v854 < v853;
let v856 = *v2274;
var<function> v2519_store: vec4<bool>;
let v2519 = &v2519_store;
*v2519 = v2241;
var<function> v2520_store: vec4<bool>;
let v2520 = &v2520_store;
let v2279 = *v2519;
*v2520 = v2279;
let v2280 = v856[0];
var<function> v2521_store: bool;
let v2521 = &v2521_store;
if v2280 {
let v2281 = v855[0];
*v2521 = v2281;

} else {
*v2521 = v2240;

}
let v2284 = *v2520;
let v2285 = *v2521;
let v2286 = vec4<bool>(v2285, v2284[1], v2284[2], v2284[3]);
*v2520 = v2286;
let v2287 = v856[1];
var<function> v2522_store: bool;
let v2522 = &v2522_store;
if v2287 {
let v2288 = v855[1];
*v2522 = v2288;

} else {
*v2522 = v2240;

}
let v2291 = *v2520;
let v2292 = *v2522;
let v2293 = vec4<bool>(v2291[0], v2292, v2291[2], v2291[3]);
*v2520 = v2293;
let v2294 = v856[2];
var<function> v2523_store: bool;
let v2523 = &v2523_store;
if v2294 {
let v2295 = v855[2];
*v2523 = v2295;

} else {
*v2523 = v2240;

}
let v2298 = *v2520;
let v2299 = *v2523;
let v2300 = vec4<bool>(v2298[0], v2298[1], v2299, v2298[3]);
*v2520 = v2300;
let v2301 = v856[3];
var<function> v2524_store: bool;
let v2524 = &v2524_store;
if v2301 {
let v2302 = v855[3];
*v2524 = v2302;

} else {
*v2524 = v2240;

}
let v2305 = *v2520;
let v2306 = *v2524;
let v2307 = vec4<bool>(v2305[0], v2305[1], v2305[2], v2306);
*v2520 = v2307;
let v2308 = *v2520;
let v858 = *v2238;
let v859 = select(v735, v858, v2308);
*v2238 = v859;

}
let v864 = *v2238;
*v624 = v864;
let v865 = *v2162;
let v866 = *v2238;
let v867 = max(v865, v866);
*v2162 = v867;
let v873 = u32(8);
let v874 = v290 + v873;
*v2160 = v874;
let v879 = *v635;
var<function> v2309_store: vec4<f32>;
let v2309 = &v2309_store;
*v2309 = v879;
var<function> v2310_store: vec4<f32>;
let v2310 = &v2310_store;
*v2310 = v758;
var<function> v2311_store: vec4<f32>;
let v2311 = &v2311_store;
let v885 = *v2309;
*v2311 = v885;
if v762 {
let v887 = *v2110;
let v888 = i32(v887);
let v889 = *v2160;
let v890 = i32(v889);
let v891 = v888 - v890;
let v893 = select(v151, v891, v743);
let v894 = *v2159;
let v895 = i32(v894);
let v896 = *v2112;
let v897 = v895 + v896;
let v900 = v890 - v897;
let v901 = vec4<i32>(v900);
let v902 = *v2161;
let v903 = v901 + v902;
let v908 = v712 == v712;
var<function> v2312_store: vec4<bool>;
let v2312 = &v2312_store;
*v2312 = v908;
let v910 = v903 <= v712;
let v911 = *v2312;
let v2313 = false;
let v2314 = vec4<bool>(v2313);
var<function> v2525_store: vec4<bool>;
let v2525 = &v2525_store;
*v2525 = v2314;
var<function> v2526_store: vec4<bool>;
let v2526 = &v2526_store;
let v2317 = *v2525;
*v2526 = v2317;
let v2318 = v911[0];
var<function> v2527_store: bool;
let v2527 = &v2527_store;
if v2318 {
let v2319 = v910[0];
*v2527 = v2319;

} else {
*v2527 = v2313;

}
let v2322 = *v2526;
let v2323 = *v2527;
let v2324 = vec4<bool>(v2323, v2322[1], v2322[2], v2322[3]);
*v2526 = v2324;
let v2325 = v911[1];
var<function> v2528_store: bool;
let v2528 = &v2528_store;
if v2325 {
let v2326 = v910[1];
*v2528 = v2326;

} else {
*v2528 = v2313;

}
let v2329 = *v2526;
let v2330 = *v2528;
let v2331 = vec4<bool>(v2329[0], v2330, v2329[2], v2329[3]);
*v2526 = v2331;
let v2332 = v911[2];
var<function> v2529_store: bool;
let v2529 = &v2529_store;
if v2332 {
let v2333 = v910[2];
*v2529 = v2333;

} else {
*v2529 = v2313;

}
let v2336 = *v2526;
let v2337 = *v2529;
let v2338 = vec4<bool>(v2336[0], v2336[1], v2337, v2336[3]);
*v2526 = v2338;
let v2339 = v911[3];
var<function> v2530_store: bool;
let v2530 = &v2530_store;
if v2339 {
let v2340 = v910[3];
*v2530 = v2340;

} else {
*v2530 = v2313;

}
let v2343 = *v2526;
let v2344 = *v2530;
let v2345 = vec4<bool>(v2343[0], v2343[1], v2343[2], v2344);
*v2526 = v2345;
let v2346 = *v2526;
*v2312 = v2346;
var<function> v2347_store: vec4<bool>;
let v2347 = &v2347_store;
let v914 = *v2312;
*v2347 = v914;
let v915 = vec4<i32>(v893);
let v916 = *v2161;
let v917 = v916 < v915;
let v918 = *v2347;
var<function> v2531_store: vec4<bool>;
let v2531 = &v2531_store;
*v2531 = v2314;
var<function> v2532_store: vec4<bool>;
let v2532 = &v2532_store;
let v2352 = *v2531;
*v2532 = v2352;
let v2353 = v918[0];
var<function> v2533_store: bool;
let v2533 = &v2533_store;
if v2353 {
let v2354 = v917[0];
*v2533 = v2354;

} else {
*v2533 = v2313;

}
let v2357 = *v2532;
let v2358 = *v2533;
let v2359 = vec4<bool>(v2358, v2357[1], v2357[2], v2357[3]);
*v2532 = v2359;
let v2360 = v918[1];
var<function> v2534_store: bool;
let v2534 = &v2534_store;
if v2360 {
let v2361 = v917[1];
*v2534 = v2361;

} else {
*v2534 = v2313;

}
let v2364 = *v2532;
let v2365 = *v2534;
let v2366 = vec4<bool>(v2364[0], v2365, v2364[2], v2364[3]);
*v2532 = v2366;
let v2367 = v918[2];
var<function> v2535_store: bool;
let v2535 = &v2535_store;
if v2367 {
let v2368 = v917[2];
*v2535 = v2368;

} else {
*v2535 = v2313;

}
let v2371 = *v2532;
let v2372 = *v2535;
let v2373 = vec4<bool>(v2371[0], v2371[1], v2372, v2371[3]);
*v2532 = v2373;
let v2374 = v918[3];
var<function> v2536_store: bool;
let v2536 = &v2536_store;
if v2374 {
let v2375 = v917[3];
*v2536 = v2375;

} else {
*v2536 = v2313;

}
let v2378 = *v2532;
let v2379 = *v2536;
let v2380 = vec4<bool>(v2378[0], v2378[1], v2378[2], v2379);
*v2532 = v2380;
let v2381 = *v2532;
let v920 = *v2311;
let v921 = select(v735, v920, v2381);
*v2311 = v921;

}
let v926 = *v2311;
*v635 = v926;
let v927 = *v2162;
let v928 = *v2311;
let v929 = max(v927, v928);
*v2162 = v929;
let v935 = u32(12);
let v936 = v290 + v935;
*v2160 = v936;
let v941 = *v646;
var<function> v2382_store: vec4<f32>;
let v2382 = &v2382_store;
*v2382 = v941;
var<function> v2383_store: vec4<f32>;
let v2383 = &v2383_store;
*v2383 = v758;
var<function> v2384_store: vec4<f32>;
let v2384 = &v2384_store;
let v947 = *v2382;
*v2384 = v947;
if v762 {
let v949 = *v2110;
let v950 = i32(v949);
let v951 = *v2160;
let v952 = i32(v951);
let v953 = v950 - v952;
let v955 = select(v151, v953, v743);
let v956 = *v2159;
let v957 = i32(v956);
let v958 = *v2112;
let v959 = v957 + v958;
let v962 = v952 - v959;
let v963 = vec4<i32>(v962);
let v964 = *v2161;
let v965 = v963 + v964;
let v970 = v712 == v712;
var<function> v2385_store: vec4<bool>;
let v2385 = &v2385_store;
*v2385 = v970;
let v972 = v965 <= v712;
let v973 = *v2385;
let v2386 = false;
let v2387 = vec4<bool>(v2386);
var<function> v2537_store: vec4<bool>;
let v2537 = &v2537_store;
*v2537 = v2387;
var<function> v2538_store: vec4<bool>;
let v2538 = &v2538_store;
let v2390 = *v2537;
*v2538 = v2390;
let v2391 = v973[0];
var<function> v2539_store: bool;
let v2539 = &v2539_store;
if v2391 {
let v2392 = v972[0];
*v2539 = v2392;

} else {
*v2539 = v2386;

}
let v2395 = *v2538;
let v2396 = *v2539;
let v2397 = vec4<bool>(v2396, v2395[1], v2395[2], v2395[3]);
*v2538 = v2397;
let v2398 = v973[1];
var<function> v2540_store: bool;
let v2540 = &v2540_store;
if v2398 {
let v2399 = v972[1];
*v2540 = v2399;

} else {
*v2540 = v2386;

}
let v2402 = *v2538;
let v2403 = *v2540;
let v2404 = vec4<bool>(v2402[0], v2403, v2402[2], v2402[3]);
*v2538 = v2404;
let v2405 = v973[2];
var<function> v2541_store: bool;
let v2541 = &v2541_store;
if v2405 {
let v2406 = v972[2];
*v2541 = v2406;

} else {
*v2541 = v2386;

}
let v2409 = *v2538;
let v2410 = *v2541;
let v2411 = vec4<bool>(v2409[0], v2409[1], v2410, v2409[3]);
*v2538 = v2411;
let v2412 = v973[3];
var<function> v2542_store: bool;
let v2542 = &v2542_store;
if v2412 {
let v2413 = v972[3];
*v2542 = v2413;

} else {
*v2542 = v2386;

}
let v2416 = *v2538;
let v2417 = *v2542;
let v2418 = vec4<bool>(v2416[0], v2416[1], v2416[2], v2417);
*v2538 = v2418;
let v2419 = *v2538;
*v2385 = v2419;
var<function> v2420_store: vec4<bool>;
let v2420 = &v2420_store;
let v976 = *v2385;
*v2420 = v976;
let v977 = vec4<i32>(v955);
let v978 = *v2161;
let v979 = v978 < v977;
let v980 = *v2420;
var<function> v2543_store: vec4<bool>;
let v2543 = &v2543_store;
*v2543 = v2387;
var<function> v2544_store: vec4<bool>;
let v2544 = &v2544_store;
let v2425 = *v2543;
*v2544 = v2425;
let v2426 = v980[0];
var<function> v2545_store: bool;
let v2545 = &v2545_store;
if v2426 {
let v2427 = v979[0];
*v2545 = v2427;

} else {
*v2545 = v2386;

}
let v2430 = *v2544;
let v2431 = *v2545;
let v2432 = vec4<bool>(v2431, v2430[1], v2430[2], v2430[3]);
*v2544 = v2432;
let v2433 = v980[1];
var<function> v2546_store: bool;
let v2546 = &v2546_store;
if v2433 {
let v2434 = v979[1];
*v2546 = v2434;

} else {
*v2546 = v2386;

}
let v2437 = *v2544;
let v2438 = *v2546;
let v2439 = vec4<bool>(v2437[0], v2438, v2437[2], v2437[3]);
*v2544 = v2439;
let v2440 = v980[2];
var<function> v2547_store: bool;
let v2547 = &v2547_store;
if v2440 {
let v2441 = v979[2];
*v2547 = v2441;

} else {
*v2547 = v2386;

}
let v2444 = *v2544;
let v2445 = *v2547;
let v2446 = vec4<bool>(v2444[0], v2444[1], v2445, v2444[3]);
*v2544 = v2446;
let v2447 = v980[3];
var<function> v2548_store: bool;
let v2548 = &v2548_store;
if v2447 {
let v2448 = v979[3];
*v2548 = v2448;

} else {
*v2548 = v2386;

}
let v2451 = *v2544;
let v2452 = *v2548;
let v2453 = vec4<bool>(v2451[0], v2451[1], v2451[2], v2452);
*v2544 = v2453;
let v2454 = *v2544;
let v982 = *v2384;
let v983 = select(v735, v982, v2454);
*v2384 = v983;

}
let v988 = *v2384;
*v646 = v988;
let v989 = *v2162;
let v990 = *v2384;
let v991 = max(v989, v990);
*v2162 = v991;
let v997 = *v243;
var<function> v2455_store: f32;
let v2455 = &v2455_store;
*v2455 = v997;
let v999 = *v2162;
let v1000 = v999[0];
let v1001 = *v2455;
let v1002 = max(v1001, v1000);
*v2455 = v1002;
let v1003 = *v2162;
let v1004 = v1003[1];
let v1005 = *v2455;
let v1006 = max(v1005, v1004);
*v2455 = v1006;
let v1007 = *v2162;
let v1008 = v1007[2];
let v1009 = *v2455;
let v1010 = max(v1009, v1008);
*v2455 = v1010;
let v1011 = *v2162;
let v1012 = v1011[3];
let v1013 = *v2455;
let v1014 = max(v1013, v1012);
*v2455 = v1014;
let v1015 = *v2455;
let v1016 = v997 - v1015;
let v1017 = exp(v1016);
let v1023 = *v251;
let v1024 = vec4<f32>(v1017);
let v1025 = v1023 * v1024;
var<function> v2456_store: vec4<f32>;
let v2456 = &v2456_store;
*v2456 = v1025;
let v1036 = *v613;
let v1037 = *v2455;
let v1038 = vec4<f32>(v1037);
let v1039 = v1036 - v1038;
let v1040 = exp(v1039);
var<function> v2457_store: vec4<f32>;
let v2457 = &v2457_store;
*v2457 = v1040;
if v762 {
let v1047 = *v613;
let v1048 = v1047 == v735;
let v1051 = *v2457;
let v1052 = select(v1051, v187, v1048);
*v2457 = v1052;

}
let v1053 = *v2456;
let v1054 = *v2457;
let v1055 = v1053 + v1054;
*v2456 = v1055;
let v1060 = *v2457;
*v613 = v1060;
let v1070 = *v624;
let v1071 = *v2455;
let v1072 = vec4<f32>(v1071);
let v1073 = v1070 - v1072;
let v1074 = exp(v1073);
var<function> v2458_store: vec4<f32>;
let v2458 = &v2458_store;
*v2458 = v1074;
if v762 {
let v1081 = *v624;
let v1082 = v1081 == v735;
let v1085 = *v2458;
let v1086 = select(v1085, v187, v1082);
*v2458 = v1086;

}
let v1087 = *v2456;
let v1088 = *v2458;
let v1089 = v1087 + v1088;
*v2456 = v1089;
let v1094 = *v2458;
*v624 = v1094;
let v1104 = *v635;
let v1105 = *v2455;
let v1106 = vec4<f32>(v1105);
let v1107 = v1104 - v1106;
let v1108 = exp(v1107);
var<function> v2459_store: vec4<f32>;
let v2459 = &v2459_store;
*v2459 = v1108;
if v762 {
let v1115 = *v635;
let v1116 = v1115 == v735;
let v1119 = *v2459;
let v1120 = select(v1119, v187, v1116);
*v2459 = v1120;

}
let v1121 = *v2456;
let v1122 = *v2459;
let v1123 = v1121 + v1122;
*v2456 = v1123;
let v1128 = *v2459;
*v635 = v1128;
let v1138 = *v646;
let v1139 = *v2455;
let v1140 = vec4<f32>(v1139);
let v1141 = v1138 - v1140;
let v1142 = exp(v1141);
var<function> v2460_store: vec4<f32>;
let v2460 = &v2460_store;
*v2460 = v1142;
if v762 {
let v1149 = *v646;
let v1150 = v1149 == v735;
let v1153 = *v2460;
let v1154 = select(v1153, v187, v1150);
*v2460 = v1154;

}
let v1155 = *v2456;
let v1156 = *v2460;
let v1157 = v1155 + v1156;
*v2456 = v1157;
let v1162 = *v2460;
*v646 = v1162;
let v1168 = *v2456;
*v251 = v1168;
let v1169 = *v2455;
let v1170 = v1169 > v997;
if v1170 {
for(var v1174: u32 = v3; v1174 < v116; v1174 += v96) {
let v1184 = &(*v2144)[v1174];
let v1185 = *v1184;
let v1186 = v1185 * v1024;
*v1184 = v1186;

}
let v1192 = *v2455;
*v243 = v1192;

}
if v360 {
let v1194 = v347 + v205;
let v1196 = v1194 / v367;
var<function> v2462_store: array<vec4<f32>, 2>= array<vec4<f32>, 2>();
let v2462 = &v2462_store;
let v1211 = &(*v2144)[v3];
let v1212 = *v1211;
let v1217 = &(*v2462)[v3];
*v1217 = v1212;
let v1226 = &(*v2144)[v96];
let v1227 = *v1226;
let v1232 = &(*v2462)[v96];
*v1232 = v1227;
for(var v1236: u32 = v3; v1236 < v367; v1236 += v96) {
let v1239 = v1236 * v367;
let v1243 = v1239 * v116;
let v1244 = v1196 + v1243;
let v1254 = &(*v2751)[v1244];
let v1255 = *v1254;
let v1256 = bitcast<vec4<f32>>(v1255);
let v1262 = &(*v2155)[v1236];
let v1263 = *v1262;
let v1264 = v1263[0];
let v1265 = vec4<f32>(v1264);
var<function> v2464_store: vec4<f32>;
let v2464 = &v2464_store;
*v2464 = v1256;
let v1272 = *v1217;
let v1273 = *v2464;
let v1274 = fma(v1265, v1273, v1272);
*v1217 = v1274;
let v1281 = v1244 + v96;
let v1285 = &(*v2751)[v1281];
let v1286 = *v1285;
let v1287 = bitcast<vec4<f32>>(v1286);
let v1294 = *v1262;
let v1295 = v1294[0];
let v1296 = vec4<f32>(v1295);
var<function> v2465_store: vec4<f32>;
let v2465 = &v2465_store;
*v2465 = v1287;
let v1303 = *v1232;
let v1304 = *v2465;
let v1305 = fma(v1296, v1304, v1303);
*v1232 = v1305;
let v1314 = v1239 + v96;
let v1316 = v1314 * v116;
let v1317 = v1196 + v1316;
let v1327 = &(*v2751)[v1317];
let v1328 = *v1327;
let v1329 = bitcast<vec4<f32>>(v1328);
let v1336 = *v1262;
let v1337 = v1336[1];
let v1338 = vec4<f32>(v1337);
var<function> v2466_store: vec4<f32>;
let v2466 = &v2466_store;
*v2466 = v1329;
let v1345 = *v1217;
let v1346 = *v2466;
let v1347 = fma(v1338, v1346, v1345);
*v1217 = v1347;
let v1354 = v1317 + v96;
let v1358 = &(*v2751)[v1354];
let v1359 = *v1358;
let v1360 = bitcast<vec4<f32>>(v1359);
let v1367 = *v1262;
let v1368 = v1367[1];
let v1369 = vec4<f32>(v1368);
var<function> v2467_store: vec4<f32>;
let v2467 = &v2467_store;
*v2467 = v1360;
let v1376 = *v1232;
let v1377 = *v2467;
let v1378 = fma(v1369, v1377, v1376);
*v1232 = v1378;
let v1387 = v1239 + v116;
let v1389 = v1387 * v116;
let v1390 = v1196 + v1389;
let v1400 = &(*v2751)[v1390];
let v1401 = *v1400;
let v1402 = bitcast<vec4<f32>>(v1401);
let v1409 = *v1262;
let v1410 = v1409[2];
let v1411 = vec4<f32>(v1410);
var<function> v2468_store: vec4<f32>;
let v2468 = &v2468_store;
*v2468 = v1402;
let v1418 = *v1217;
let v1419 = *v2468;
let v1420 = fma(v1411, v1419, v1418);
*v1217 = v1420;
let v1427 = v1390 + v96;
let v1431 = &(*v2751)[v1427];
let v1432 = *v1431;
let v1433 = bitcast<vec4<f32>>(v1432);
let v1440 = *v1262;
let v1441 = v1440[2];
let v1442 = vec4<f32>(v1441);
var<function> v2469_store: vec4<f32>;
let v2469 = &v2469_store;
*v2469 = v1433;
let v1449 = *v1232;
let v1450 = *v2469;
let v1451 = fma(v1442, v1450, v1449);
*v1232 = v1451;
let v1460 = v1239 + v423;
let v1462 = v1460 * v116;
let v1463 = v1196 + v1462;
let v1473 = &(*v2751)[v1463];
let v1474 = *v1473;
let v1475 = bitcast<vec4<f32>>(v1474);
let v1482 = *v1262;
let v1483 = v1482[3];
let v1484 = vec4<f32>(v1483);
var<function> v2470_store: vec4<f32>;
let v2470 = &v2470_store;
*v2470 = v1475;
let v1491 = *v1217;
let v1492 = *v2470;
let v1493 = fma(v1484, v1492, v1491);
*v1217 = v1493;
let v1500 = v1463 + v96;
let v1504 = &(*v2751)[v1500];
let v1505 = *v1504;
let v1506 = bitcast<vec4<f32>>(v1505);
let v1513 = *v1262;
let v1514 = v1513[3];
let v1515 = vec4<f32>(v1514);
var<function> v2471_store: vec4<f32>;
let v2471 = &v2471_store;
*v2471 = v1506;
let v1522 = *v1232;
let v1523 = *v2471;
let v1524 = fma(v1515, v1523, v1522);
*v1232 = v1524;

}
let v1535 = *v1217;
*v1211 = v1535;
let v1550 = *v1232;
*v1226 = v1550;

} else {
let v1561 = v347 + v205;
let v1563 = v1561 / v367;
var<function> v2472_store: array<vec4<f32>, 2>= array<vec4<f32>, 2>();
let v2472 = &v2472_store;
let v1578 = &(*v2144)[v3];
let v1579 = *v1578;
let v1584 = &(*v2472)[v3];
*v1584 = v1579;
let v1593 = &(*v2144)[v96];
let v1594 = *v1593;
let v1599 = &(*v2472)[v96];
*v1599 = v1594;
for(var v1603: u32 = v3; v1603 < v367; v1603 += v96) {
let v1606 = v1603 * v367;
let v1610 = v1606 * v116;
let v1611 = v1563 + v1610;
let v1621 = &(*v2751)[v1611];
let v1622 = *v1621;
let v1623 = bitcast<vec4<f32>>(v1622);
let v1629 = &(*v2155)[v1603];
let v1630 = *v1629;
let v1631 = v1630[0];
let v1632 = vec4<f32>(v1631);
var<function> v2474_store: vec4<f32>;
let v2474 = &v2474_store;
*v2474 = v1623;
let v1634 = v1632 == v187;
let v1635 = *v2474;
let v1636 = select(v1635, v187, v1634);
*v2474 = v1636;
let v1642 = *v1584;
let v1643 = *v2474;
let v1644 = fma(v1632, v1643, v1642);
*v1584 = v1644;
let v1651 = v1611 + v96;
let v1655 = &(*v2751)[v1651];
let v1656 = *v1655;
let v1657 = bitcast<vec4<f32>>(v1656);
let v1664 = *v1629;
let v1665 = v1664[0];
let v1666 = vec4<f32>(v1665);
var<function> v2475_store: vec4<f32>;
let v2475 = &v2475_store;
*v2475 = v1657;
let v1668 = v1666 == v187;
let v1669 = *v2475;
let v1670 = select(v1669, v187, v1668);
*v2475 = v1670;
let v1676 = *v1599;
let v1677 = *v2475;
let v1678 = fma(v1666, v1677, v1676);
*v1599 = v1678;
let v1687 = v1606 + v96;
let v1689 = v1687 * v116;
let v1690 = v1563 + v1689;
let v1700 = &(*v2751)[v1690];
let v1701 = *v1700;
let v1702 = bitcast<vec4<f32>>(v1701);
let v1709 = *v1629;
let v1710 = v1709[1];
let v1711 = vec4<f32>(v1710);
var<function> v2476_store: vec4<f32>;
let v2476 = &v2476_store;
*v2476 = v1702;
let v1713 = v1711 == v187;
let v1714 = *v2476;
let v1715 = select(v1714, v187, v1713);
*v2476 = v1715;
let v1721 = *v1584;
let v1722 = *v2476;
let v1723 = fma(v1711, v1722, v1721);
*v1584 = v1723;
let v1730 = v1690 + v96;
let v1734 = &(*v2751)[v1730];
let v1735 = *v1734;
let v1736 = bitcast<vec4<f32>>(v1735);
let v1743 = *v1629;
let v1744 = v1743[1];
let v1745 = vec4<f32>(v1744);
var<function> v2477_store: vec4<f32>;
let v2477 = &v2477_store;
*v2477 = v1736;
let v1747 = v1745 == v187;
let v1748 = *v2477;
let v1749 = select(v1748, v187, v1747);
*v2477 = v1749;
let v1755 = *v1599;
let v1756 = *v2477;
let v1757 = fma(v1745, v1756, v1755);
*v1599 = v1757;
let v1766 = v1606 + v116;
let v1768 = v1766 * v116;
let v1769 = v1563 + v1768;
let v1779 = &(*v2751)[v1769];
let v1780 = *v1779;
let v1781 = bitcast<vec4<f32>>(v1780);
let v1788 = *v1629;
let v1789 = v1788[2];
let v1790 = vec4<f32>(v1789);
var<function> v2478_store: vec4<f32>;
let v2478 = &v2478_store;
*v2478 = v1781;
let v1792 = v1790 == v187;
let v1793 = *v2478;
let v1794 = select(v1793, v187, v1792);
*v2478 = v1794;
let v1800 = *v1584;
let v1801 = *v2478;
let v1802 = fma(v1790, v1801, v1800);
*v1584 = v1802;
let v1809 = v1769 + v96;
let v1813 = &(*v2751)[v1809];
let v1814 = *v1813;
let v1815 = bitcast<vec4<f32>>(v1814);
let v1822 = *v1629;
let v1823 = v1822[2];
let v1824 = vec4<f32>(v1823);
var<function> v2479_store: vec4<f32>;
let v2479 = &v2479_store;
*v2479 = v1815;
let v1826 = v1824 == v187;
let v1827 = *v2479;
let v1828 = select(v1827, v187, v1826);
*v2479 = v1828;
let v1834 = *v1599;
let v1835 = *v2479;
let v1836 = fma(v1824, v1835, v1834);
*v1599 = v1836;
let v1845 = v1606 + v423;
let v1847 = v1845 * v116;
let v1848 = v1563 + v1847;
let v1858 = &(*v2751)[v1848];
let v1859 = *v1858;
let v1860 = bitcast<vec4<f32>>(v1859);
let v1867 = *v1629;
let v1868 = v1867[3];
let v1869 = vec4<f32>(v1868);
var<function> v2480_store: vec4<f32>;
let v2480 = &v2480_store;
*v2480 = v1860;
let v1871 = v1869 == v187;
let v1872 = *v2480;
let v1873 = select(v1872, v187, v1871);
*v2480 = v1873;
let v1879 = *v1584;
let v1880 = *v2480;
let v1881 = fma(v1869, v1880, v1879);
*v1584 = v1881;
let v1888 = v1848 + v96;
let v1892 = &(*v2751)[v1888];
let v1893 = *v1892;
let v1894 = bitcast<vec4<f32>>(v1893);
let v1901 = *v1629;
let v1902 = v1901[3];
let v1903 = vec4<f32>(v1902);
var<function> v2481_store: vec4<f32>;
let v2481 = &v2481_store;
*v2481 = v1894;
let v1905 = v1903 == v187;
let v1906 = *v2481;
let v1907 = select(v1906, v187, v1905);
*v2481 = v1907;
let v1913 = *v1599;
let v1914 = *v2481;
let v1915 = fma(v1903, v1914, v1913);
*v1599 = v1915;

}
let v1926 = *v1584;
*v1578 = v1926;
let v1941 = *v1599;
*v1593 = v1941;

}

}

}
let v1956 = *v251;
var<function> v2549_store: f32;
let v2549 = &v2549_store;
*v2549 = v186;
let v2485 = v1956[0];
let v2486 = *v2549;
let v2487 = v2486 + v2485;
*v2549 = v2487;
let v2488 = v1956[1];
let v2489 = *v2549;
let v2490 = v2489 + v2488;
*v2549 = v2490;
let v2491 = v1956[2];
let v2492 = *v2549;
let v2493 = v2492 + v2491;
*v2549 = v2493;
let v2494 = v1956[3];
let v2495 = *v2549;
let v2496 = v2495 + v2494;
*v2549 = v2496;
let v2497 = *v2549;
let v1963 = *v184;
let v1969 = *v243;
let v1970 = max(v1963, v1969);
let v1971 = v1963 - v1970;
let v1972 = exp(v1971);
let v1973 = v1969 - v1970;
let v1974 = exp(v1973);
*v184 = v1970;
let v1985 = *v192;
let v1986 = v1985[0];
let v1988 = v2497 * v1974;
let v2745 = fma(v1986, v1972, v1988);
let v1990 = vec4<f32>(v2745);
*v192 = v1990;
for(var v1999: u32 = v3; v1999 < v116; v1999 += v96) {
let v2008 = &(*v2139)[v1999];
let v2009 = *v2008;
let v2013 = &(*v2144)[v1999];
let v2014 = *v2013;
let v2015 = vec4<f32>(v1974);
let v2016 = vec4<f32>(v1972);
let v2017 = v2009 * v2016;
let v2018 = fma(v2014, v2015, v2017);
*v2008 = v2018;

}

}
let v2025 = v113 < v95;
if v2025 {
let v2029 = v95 - v96;
let v2030 = min(v113, v2029);
let v2031 = *v2108;
let v2032 = v112 * v2031;
let v2034 = v2030 % v2031;
let v2035 = v2032 + v2034;
let v2037 = v2030 / v2031;
var<function> v2499_store: i32;
let v2499 = &v2499_store;
*v2499 = v151;
*v2499 = v151;
let v2042 = *v2106;
let v2043 = v110 * v2042;
let v2044 = v2043 + v2035;
let v2045 = *v2109;
let v2046 = v2044 * v2045;
let v2047 = v2046 + v2037;
let v2048 = v2047 * v62;
let v2049 = v2048 + v106;
let v2055 = *v184;
let v2057 = v116 * v2049;
let v2061 = &(*v2746)[v2057];
*v2061 = v2055;
let v2067 = *v192;
let v2068 = v2067[0];
let v2072 = v2057 + v96;
let v2076 = &(*v2746)[v2072];
*v2076 = v2068;
for(var v2080: u32 = v3; v2080 < v116; v2080 += v96) {
let v2089 = &(*v2139)[v2080];
let v2090 = *v2089;
let v2092 = v2049 * v116;
let v2093 = v2092 + v2080;
let v2097 = &(*v2747)[v2093];
*v2097 = v2090;

}

}

}
return;

}
