var<workgroup> shared_v33: array<vec4<f32>, 20>;
var<workgroup> shared_v37: array<vec4<f32>, 320>;
@group(0) @binding(5) var<storage, read_write> v21: array<f32>;
@group(0) @binding(4) var<storage, read> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 8>, static_meta: array<u32, 6> }
@group(0) @binding(6) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_gemv_f32_sorted_bias(@builtin(workgroup_id) v906: vec3<u32>, @builtin(local_invocation_index) v909: u32, @builtin(local_invocation_id) v919: vec3<u32>) {
let v1005 = &v21;
let v1006 = &v17;
let v1007 = &v13;
let v1008 = &v9;
let v1009 = &v5;
let v1010 = &v1;
let v3 = u32(0);
let v25 = info_var.scalars_usize[0];
let v26 = info_var.scalars_usize[1];
let v31 = info_var.scalars_usize[6];
let v32 = info_var.scalars_usize[7];
let v891 = &shared_v33;
let v892 = &shared_v37;
var<function> v893_store: array<f32, 4>= array<f32, 4>();
let v893 = &v893_store;
let v43 = u32(4);
let v49 = &(*v893)[v3];
let v50 = f32(0.0);
*v49 = v50;
let v53 = u32(1);
let v55 = &(*v893)[v53];
*v55 = v50;
let v59 = u32(2);
let v61 = &(*v893)[v59];
*v61 = v50;
let v65 = u32(3);
let v67 = &(*v893)[v65];
*v67 = v50;
let v907 = v906[0];
let v70 = u32(v907);
let v72 = v70 * v65;
let v76 = &(*v1008)[v72];
let v77 = *v76;
let v78 = u32(v77);
let v80 = v72 + v53;
let v84 = &(*v1008)[v80];
let v85 = *v84;
let v86 = u32(v85);
let v88 = v72 + v59;
let v92 = &(*v1008)[v88];
let v93 = *v92;
let v94 = u32(v93);
let v908 = v906[1];
let v96 = u32(v908);
let v97 = u32(64);
let v98 = v96 * v97;
let v99 = v78 >= v31;
let v100 = v78 < v32;
let v101 = v99 && v100;
if v101 {
let v103 = u32(16);
for(var v104: u32 = v3; v104 < v26; v104 += v103) {
let v910 = v909;
let v107 = u32(v910);
let v111 = v107 < v103;
if v111 {
let v113 = v107 / v43;
let v115 = v107 % v43;
let v116 = v86 + v113;
let v118 = v94 - v53;
let v119 = min(v116, v118);
let v121 = v43 * v115;
let v122 = v104 + v121;
let v124 = vec4<f32>(v50);
var<function> v895_store: vec4<f32>;
let v895 = &v895_store;
*v895 = v124;
let v126 = v122 < v26;
if v126 {
let v127 = v119 * v26;
let v128 = v127 + v122;
let v130 = v128 / v43;
let v134 = &(*v1010)[v130];
let v135 = *v134;
*v895 = v135;

}
let v136 = u32(5);
let v137 = v113 * v136;
let v138 = v137 + v115;
let v142 = &(*v891)[v138];
let v143 = *v895;
*v142 = v143;

}
let v144 = v78 - v31;
let v145 = v144 * v25;
let v152 = u32(256);
let v153 = v107 < v152;
if v153 {
let v155 = v107 / v43;
let v157 = v107 % v43;
let v159 = v155 / v97;
let v161 = v155 % v97;
let v162 = v98 + v161;
let v164 = v25 - v53;
let v165 = min(v162, v164);
let v166 = v159 * v25;
let v167 = v145 + v166;
let v168 = v167 + v165;
let v170 = v43 * v157;
let v171 = v104 + v170;
let v173 = vec4<f32>(v50);
var<function> v896_store: vec4<f32>;
let v896 = &v896_store;
*v896 = v173;
let v175 = v171 < v26;
if v175 {
let v176 = v168 * v26;
let v177 = v176 + v171;
let v179 = v177 / v43;
let v183 = &(*v1007)[v179];
let v184 = *v183;
*v896 = v184;

}
let v185 = u32(5);
let v186 = v155 * v185;
let v187 = v186 + v157;
let v191 = &(*v892)[v187];
let v192 = *v896;
*v191 = v192;

}
let v196 = v107 + v97;
let v198 = v196 < v152;
if v198 {
let v200 = v196 / v43;
let v202 = v196 % v43;
let v204 = v200 / v97;
let v206 = v200 % v97;
let v207 = v98 + v206;
let v209 = v25 - v53;
let v210 = min(v207, v209);
let v211 = v204 * v25;
let v212 = v145 + v211;
let v213 = v212 + v210;
let v215 = v43 * v202;
let v216 = v104 + v215;
let v218 = vec4<f32>(v50);
var<function> v897_store: vec4<f32>;
let v897 = &v897_store;
*v897 = v218;
let v220 = v216 < v26;
if v220 {
let v221 = v213 * v26;
let v222 = v221 + v216;
let v224 = v222 / v43;
let v228 = &(*v1007)[v224];
let v229 = *v228;
*v897 = v229;

}
let v230 = u32(5);
let v231 = v200 * v230;
let v232 = v231 + v202;
let v236 = &(*v892)[v232];
let v237 = *v897;
*v236 = v237;

}
let v240 = u32(128);
let v241 = v107 + v240;
let v243 = v241 < v152;
if v243 {
let v245 = v241 / v43;
let v247 = v241 % v43;
let v249 = v245 / v97;
let v251 = v245 % v97;
let v252 = v98 + v251;
let v254 = v25 - v53;
let v255 = min(v252, v254);
let v256 = v249 * v25;
let v257 = v145 + v256;
let v258 = v257 + v255;
let v260 = v43 * v247;
let v261 = v104 + v260;
let v263 = vec4<f32>(v50);
var<function> v898_store: vec4<f32>;
let v898 = &v898_store;
*v898 = v263;
let v265 = v261 < v26;
if v265 {
let v266 = v258 * v26;
let v267 = v266 + v261;
let v269 = v267 / v43;
let v273 = &(*v1007)[v269];
let v274 = *v273;
*v898 = v274;

}
let v275 = u32(5);
let v276 = v245 * v275;
let v277 = v276 + v247;
let v281 = &(*v892)[v277];
let v282 = *v898;
*v281 = v282;

}
let v285 = u32(192);
let v286 = v107 + v285;
let v288 = v286 < v152;
if v288 {
let v290 = v286 / v43;
let v292 = v286 % v43;
let v294 = v290 / v97;
let v296 = v290 % v97;
let v297 = v98 + v296;
let v299 = v25 - v53;
let v300 = min(v297, v299);
let v301 = v294 * v25;
let v302 = v145 + v301;
let v303 = v302 + v300;
let v305 = v43 * v292;
let v306 = v104 + v305;
let v308 = vec4<f32>(v50);
var<function> v899_store: vec4<f32>;
let v899 = &v899_store;
*v899 = v308;
let v310 = v306 < v26;
if v310 {
let v311 = v303 * v26;
let v312 = v311 + v306;
let v314 = v312 / v43;
let v318 = &(*v1007)[v314];
let v319 = *v318;
*v899 = v319;

}
let v320 = u32(5);
let v321 = v290 * v320;
let v322 = v321 + v292;
let v326 = &(*v892)[v322];
let v327 = *v899;
*v326 = v327;

}
workgroupBarrier();
for(var v331: u32 = v3; v331 < v43; v331 += v53) {
var<function> v901_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v901 = &v901_store;
let v341 = u32(5);
let v347 = &(*v891)[v331];
let v348 = *v347;
let v353 = &(*v901)[v3];
*v353 = v348;
let v360 = v341 + v331;
let v364 = &(*v891)[v360];
let v365 = *v364;
let v370 = &(*v901)[v53];
*v370 = v365;
let v990 = u32(10);
let v377 = v990 + v331;
let v381 = &(*v891)[v377];
let v382 = *v381;
let v387 = &(*v901)[v59];
*v387 = v382;
let v986 = u32(15);
let v394 = v986 + v331;
let v398 = &(*v891)[v394];
let v399 = *v398;
let v404 = &(*v901)[v65];
*v404 = v399;
let v920 = v919[0];
let v406 = u32(v920);
let v410 = v406 * v341;
let v411 = v410 + v331;
let v415 = &(*v892)[v411];
let v416 = *v415;
let v422 = *v49;
let v428 = *v353;
let v429 = v428[0];
let v430 = v416[0];
let v431 = fma(v429, v430, v422);
*v49 = v431;
let v442 = *v49;
let v448 = *v353;
let v449 = v448[1];
let v450 = v416[1];
let v451 = fma(v449, v450, v442);
*v49 = v451;
let v462 = *v49;
let v468 = *v353;
let v469 = v468[2];
let v470 = v416[2];
let v471 = fma(v469, v470, v462);
*v49 = v471;
let v482 = *v49;
let v488 = *v353;
let v489 = v488[3];
let v490 = v416[3];
let v491 = fma(v489, v490, v482);
*v49 = v491;
let v502 = *v55;
let v508 = *v370;
let v509 = v508[0];
let v511 = fma(v509, v430, v502);
*v55 = v511;
let v522 = *v55;
let v528 = *v370;
let v529 = v528[1];
let v531 = fma(v529, v450, v522);
*v55 = v531;
let v542 = *v55;
let v548 = *v370;
let v549 = v548[2];
let v551 = fma(v549, v470, v542);
*v55 = v551;
let v562 = *v55;
let v568 = *v370;
let v569 = v568[3];
let v571 = fma(v569, v490, v562);
*v55 = v571;
let v582 = *v61;
let v588 = *v387;
let v589 = v588[0];
let v591 = fma(v589, v430, v582);
*v61 = v591;
let v602 = *v61;
let v608 = *v387;
let v609 = v608[1];
let v611 = fma(v609, v450, v602);
*v61 = v611;
let v622 = *v61;
let v628 = *v387;
let v629 = v628[2];
let v631 = fma(v629, v470, v622);
*v61 = v631;
let v642 = *v61;
let v648 = *v387;
let v649 = v648[3];
let v651 = fma(v649, v490, v642);
*v61 = v651;
let v662 = *v67;
let v668 = *v404;
let v669 = v668[0];
let v671 = fma(v669, v430, v662);
*v67 = v671;
let v682 = *v67;
let v688 = *v404;
let v689 = v688[1];
let v691 = fma(v689, v450, v682);
*v67 = v691;
let v702 = *v67;
let v708 = *v404;
let v709 = v708[2];
let v711 = fma(v709, v470, v702);
*v67 = v711;
let v722 = *v67;
let v728 = *v404;
let v729 = v728[3];
let v731 = fma(v729, v490, v722);
*v67 = v731;

}
workgroupBarrier();

}
let v737 = v78 * v25;
let v922 = v919[0];
let v746 = u32(v922);
let v747 = v98 + v746;
let v750 = v86 < v94;
let v751 = v747 < v25;
let v752 = v750 && v751;
if v752 {
let v758 = *v49;
let v759 = v737 + v747;
let v763 = &(*v1006)[v759];
let v764 = *v763;
let v765 = v758 + v764;
var<function> v902_store: f32;
let v902 = &v902_store;
*v902 = v765;
let v769 = *v902;
let v770 = v86 * v25;
let v771 = v770 + v747;
let v775 = &(*v1005)[v771];
*v775 = v769;

}
let v780 = v86 + v53;
let v786 = v780 < v94;
let v788 = v786 && v751;
if v788 {
let v794 = *v55;
let v795 = v737 + v747;
let v799 = &(*v1006)[v795];
let v800 = *v799;
let v801 = v794 + v800;
var<function> v903_store: f32;
let v903 = &v903_store;
*v903 = v801;
let v805 = *v903;
let v806 = v780 * v25;
let v807 = v806 + v747;
let v811 = &(*v1005)[v807];
*v811 = v805;

}
let v816 = v86 + v59;
let v822 = v816 < v94;
let v824 = v822 && v751;
if v824 {
let v830 = *v61;
let v831 = v737 + v747;
let v835 = &(*v1006)[v831];
let v836 = *v835;
let v837 = v830 + v836;
var<function> v904_store: f32;
let v904 = &v904_store;
*v904 = v837;
let v841 = *v904;
let v842 = v816 * v25;
let v843 = v842 + v747;
let v847 = &(*v1005)[v843];
*v847 = v841;

}
let v852 = v86 + v65;
let v858 = v852 < v94;
let v860 = v858 && v751;
if v860 {
let v866 = *v67;
let v867 = v737 + v747;
let v871 = &(*v1006)[v867];
let v872 = *v871;
let v873 = v866 + v872;
var<function> v905_store: f32;
let v905 = &v905_store;
*v905 = v873;
let v877 = *v905;
let v878 = v852 * v25;
let v879 = v878 + v747;
let v883 = &(*v1005)[v879];
*v883 = v877;

}

}
return;

}
