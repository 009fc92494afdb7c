var<workgroup> shared_v29: array<vec4<f32>, 20>;
var<workgroup> shared_v33: array<vec4<f32>, 320>;
@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<f32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 8>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_gemv_f32_sorted_in_out(@builtin(workgroup_id) v1065: vec3<u32>, @builtin(local_invocation_index) v1068: u32, @builtin(local_invocation_id) v1078: vec3<u32>) {
let v1164 = &v17;
let v1165 = &v13;
let v1166 = &v9;
let v1167 = &v5;
let v1168 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v27 = info_var.scalars_usize[6];
let v28 = info_var.scalars_usize[7];
let v1050 = &shared_v29;
let v1051 = &shared_v33;
var<function> v1052_store: array<f32, 4>= array<f32, 4>();
let v1052 = &v1052_store;
let v39 = u32(4);
let v45 = &(*v1052)[v3];
let v46 = f32(0.0);
*v45 = v46;
let v49 = u32(1);
let v51 = &(*v1052)[v49];
*v51 = v46;
let v55 = u32(2);
let v57 = &(*v1052)[v55];
*v57 = v46;
let v61 = u32(3);
let v63 = &(*v1052)[v61];
*v63 = v46;
let v1066 = v1065[0];
let v66 = u32(v1066);
let v68 = v66 * v61;
let v72 = &(*v1166)[v68];
let v73 = *v72;
let v74 = u32(v73);
let v76 = v68 + v49;
let v80 = &(*v1166)[v76];
let v81 = *v80;
let v82 = u32(v81);
let v84 = v68 + v55;
let v88 = &(*v1166)[v84];
let v89 = *v88;
let v90 = u32(v89);
let v1067 = v1065[1];
let v92 = u32(v1067);
let v93 = u32(64);
let v94 = v92 * v93;
let v95 = v74 >= v27;
let v96 = v74 < v28;
let v97 = v95 && v96;
if v97 {
let v99 = u32(16);
for(var v100: u32 = v3; v100 < v22; v100 += v99) {
let v1069 = v1068;
let v103 = u32(v1069);
let v107 = v103 < v99;
if v107 {
let v109 = v103 / v39;
let v111 = v103 % v39;
let v112 = v82 + v109;
let v114 = v90 - v49;
let v115 = min(v112, v114);
let v117 = v39 * v111;
let v118 = v100 + v117;
let v120 = vec4<f32>(v46);
var<function> v1054_store: vec4<f32>;
let v1054 = &v1054_store;
*v1054 = v120;
let v122 = v118 < v22;
if v122 {
let v123 = v115 * v22;
let v124 = v123 + v118;
let v126 = v124 / v39;
let v130 = &(*v1168)[v126];
let v131 = *v130;
*v1054 = v131;

}
let v132 = u32(5);
let v133 = v109 * v132;
let v134 = v133 + v111;
let v138 = &(*v1050)[v134];
let v139 = *v1054;
*v138 = v139;

}
let v140 = v74 - v27;
let v141 = v140 * v21;
let v148 = u32(256);
let v149 = v103 < v148;
if v149 {
let v151 = v103 % v93;
let v153 = v103 / v93;
let v155 = v39 * v153;
let v156 = v100 + v155;
let v157 = v94 + v151;
let v159 = v21 - v49;
let v160 = min(v157, v159);
let v162 = vec4<f32>(v46);
var<function> v1055_store: vec4<f32>;
let v1055 = &v1055_store;
*v1055 = v162;
let v166 = v156 < v22;
if v166 {
let v167 = v141 * v22;
let v170 = v156 * v21;
let v171 = v167 + v170;
let v172 = v171 + v160;
let v176 = &(*v1165)[v172];
let v177 = *v176;
let v178 = *v1055;
let v179 = vec4<f32>(v177, v178[1], v178[2], v178[3]);
*v1055 = v179;

}
let v181 = v156 + v49;
let v182 = v181 < v22;
if v182 {
let v183 = v141 * v22;
let v186 = v181 * v21;
let v187 = v183 + v186;
let v188 = v187 + v160;
let v192 = &(*v1165)[v188];
let v193 = *v192;
let v194 = *v1055;
let v195 = vec4<f32>(v194[0], v193, v194[2], v194[3]);
*v1055 = v195;

}
let v197 = v156 + v55;
let v198 = v197 < v22;
if v198 {
let v199 = v141 * v22;
let v202 = v197 * v21;
let v203 = v199 + v202;
let v204 = v203 + v160;
let v208 = &(*v1165)[v204];
let v209 = *v208;
let v210 = *v1055;
let v211 = vec4<f32>(v210[0], v210[1], v209, v210[3]);
*v1055 = v211;

}
let v213 = v156 + v61;
let v214 = v213 < v22;
if v214 {
let v215 = v141 * v22;
let v218 = v213 * v21;
let v219 = v215 + v218;
let v220 = v219 + v160;
let v224 = &(*v1165)[v220];
let v225 = *v224;
let v226 = *v1055;
let v227 = vec4<f32>(v226[0], v226[1], v226[2], v225);
*v1055 = v227;

}
let v228 = u32(5);
let v229 = v151 * v228;
let v230 = v229 + v153;
let v234 = &(*v1051)[v230];
let v235 = *v1055;
*v234 = v235;

}
let v239 = v103 + v93;
let v241 = v239 < v148;
if v241 {
let v243 = v239 % v93;
let v245 = v239 / v93;
let v247 = v39 * v245;
let v248 = v100 + v247;
let v249 = v94 + v243;
let v251 = v21 - v49;
let v252 = min(v249, v251);
let v254 = vec4<f32>(v46);
var<function> v1056_store: vec4<f32>;
let v1056 = &v1056_store;
*v1056 = v254;
let v258 = v248 < v22;
if v258 {
let v259 = v141 * v22;
let v262 = v248 * v21;
let v263 = v259 + v262;
let v264 = v263 + v252;
let v268 = &(*v1165)[v264];
let v269 = *v268;
let v270 = *v1056;
let v271 = vec4<f32>(v269, v270[1], v270[2], v270[3]);
*v1056 = v271;

}
let v273 = v248 + v49;
let v274 = v273 < v22;
if v274 {
let v275 = v141 * v22;
let v278 = v273 * v21;
let v279 = v275 + v278;
let v280 = v279 + v252;
let v284 = &(*v1165)[v280];
let v285 = *v284;
let v286 = *v1056;
let v287 = vec4<f32>(v286[0], v285, v286[2], v286[3]);
*v1056 = v287;

}
let v289 = v248 + v55;
let v290 = v289 < v22;
if v290 {
let v291 = v141 * v22;
let v294 = v289 * v21;
let v295 = v291 + v294;
let v296 = v295 + v252;
let v300 = &(*v1165)[v296];
let v301 = *v300;
let v302 = *v1056;
let v303 = vec4<f32>(v302[0], v302[1], v301, v302[3]);
*v1056 = v303;

}
let v305 = v248 + v61;
let v306 = v305 < v22;
if v306 {
let v307 = v141 * v22;
let v310 = v305 * v21;
let v311 = v307 + v310;
let v312 = v311 + v252;
let v316 = &(*v1165)[v312];
let v317 = *v316;
let v318 = *v1056;
let v319 = vec4<f32>(v318[0], v318[1], v318[2], v317);
*v1056 = v319;

}
let v320 = u32(5);
let v321 = v243 * v320;
let v322 = v321 + v245;
let v326 = &(*v1051)[v322];
let v327 = *v1056;
*v326 = v327;

}
let v330 = u32(128);
let v331 = v103 + v330;
let v333 = v331 < v148;
if v333 {
let v335 = v331 % v93;
let v337 = v331 / v93;
let v339 = v39 * v337;
let v340 = v100 + v339;
let v341 = v94 + v335;
let v343 = v21 - v49;
let v344 = min(v341, v343);
let v346 = vec4<f32>(v46);
var<function> v1057_store: vec4<f32>;
let v1057 = &v1057_store;
*v1057 = v346;
let v350 = v340 < v22;
if v350 {
let v351 = v141 * v22;
let v354 = v340 * v21;
let v355 = v351 + v354;
let v356 = v355 + v344;
let v360 = &(*v1165)[v356];
let v361 = *v360;
let v362 = *v1057;
let v363 = vec4<f32>(v361, v362[1], v362[2], v362[3]);
*v1057 = v363;

}
let v365 = v340 + v49;
let v366 = v365 < v22;
if v366 {
let v367 = v141 * v22;
let v370 = v365 * v21;
let v371 = v367 + v370;
let v372 = v371 + v344;
let v376 = &(*v1165)[v372];
let v377 = *v376;
let v378 = *v1057;
let v379 = vec4<f32>(v378[0], v377, v378[2], v378[3]);
*v1057 = v379;

}
let v381 = v340 + v55;
let v382 = v381 < v22;
if v382 {
let v383 = v141 * v22;
let v386 = v381 * v21;
let v387 = v383 + v386;
let v388 = v387 + v344;
let v392 = &(*v1165)[v388];
let v393 = *v392;
let v394 = *v1057;
let v395 = vec4<f32>(v394[0], v394[1], v393, v394[3]);
*v1057 = v395;

}
let v397 = v340 + v61;
let v398 = v397 < v22;
if v398 {
let v399 = v141 * v22;
let v402 = v397 * v21;
let v403 = v399 + v402;
let v404 = v403 + v344;
let v408 = &(*v1165)[v404];
let v409 = *v408;
let v410 = *v1057;
let v411 = vec4<f32>(v410[0], v410[1], v410[2], v409);
*v1057 = v411;

}
let v412 = u32(5);
let v413 = v335 * v412;
let v414 = v413 + v337;
let v418 = &(*v1051)[v414];
let v419 = *v1057;
*v418 = v419;

}
let v422 = u32(192);
let v423 = v103 + v422;
let v425 = v423 < v148;
if v425 {
let v427 = v423 % v93;
let v429 = v423 / v93;
let v431 = v39 * v429;
let v432 = v100 + v431;
let v433 = v94 + v427;
let v435 = v21 - v49;
let v436 = min(v433, v435);
let v438 = vec4<f32>(v46);
var<function> v1058_store: vec4<f32>;
let v1058 = &v1058_store;
*v1058 = v438;
let v442 = v432 < v22;
if v442 {
let v443 = v141 * v22;
let v446 = v432 * v21;
let v447 = v443 + v446;
let v448 = v447 + v436;
let v452 = &(*v1165)[v448];
let v453 = *v452;
let v454 = *v1058;
let v455 = vec4<f32>(v453, v454[1], v454[2], v454[3]);
*v1058 = v455;

}
let v457 = v432 + v49;
let v458 = v457 < v22;
if v458 {
let v459 = v141 * v22;
let v462 = v457 * v21;
let v463 = v459 + v462;
let v464 = v463 + v436;
let v468 = &(*v1165)[v464];
let v469 = *v468;
let v470 = *v1058;
let v471 = vec4<f32>(v470[0], v469, v470[2], v470[3]);
*v1058 = v471;

}
let v473 = v432 + v55;
let v474 = v473 < v22;
if v474 {
let v475 = v141 * v22;
let v478 = v473 * v21;
let v479 = v475 + v478;
let v480 = v479 + v436;
let v484 = &(*v1165)[v480];
let v485 = *v484;
let v486 = *v1058;
let v487 = vec4<f32>(v486[0], v486[1], v485, v486[3]);
*v1058 = v487;

}
let v489 = v432 + v61;
let v490 = v489 < v22;
if v490 {
let v491 = v141 * v22;
let v494 = v489 * v21;
let v495 = v491 + v494;
let v496 = v495 + v436;
let v500 = &(*v1165)[v496];
let v501 = *v500;
let v502 = *v1058;
let v503 = vec4<f32>(v502[0], v502[1], v502[2], v501);
*v1058 = v503;

}
let v504 = u32(5);
let v505 = v427 * v504;
let v506 = v505 + v429;
let v510 = &(*v1051)[v506];
let v511 = *v1058;
*v510 = v511;

}
workgroupBarrier();
for(var v515: u32 = v3; v515 < v39; v515 += v49) {
var<function> v1060_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v1060 = &v1060_store;
let v525 = u32(5);
let v531 = &(*v1050)[v515];
let v532 = *v531;
let v537 = &(*v1060)[v3];
*v537 = v532;
let v544 = v525 + v515;
let v548 = &(*v1050)[v544];
let v549 = *v548;
let v554 = &(*v1060)[v49];
*v554 = v549;
let v1149 = u32(10);
let v561 = v1149 + v515;
let v565 = &(*v1050)[v561];
let v566 = *v565;
let v571 = &(*v1060)[v55];
*v571 = v566;
let v1145 = u32(15);
let v578 = v1145 + v515;
let v582 = &(*v1050)[v578];
let v583 = *v582;
let v588 = &(*v1060)[v61];
*v588 = v583;
let v1079 = v1078[0];
let v590 = u32(v1079);
let v594 = v590 * v525;
let v595 = v594 + v515;
let v599 = &(*v1051)[v595];
let v600 = *v599;
let v606 = *v45;
let v612 = *v537;
let v613 = v612[0];
let v614 = v600[0];
let v615 = fma(v613, v614, v606);
*v45 = v615;
let v626 = *v45;
let v632 = *v537;
let v633 = v632[1];
let v634 = v600[1];
let v635 = fma(v633, v634, v626);
*v45 = v635;
let v646 = *v45;
let v652 = *v537;
let v653 = v652[2];
let v654 = v600[2];
let v655 = fma(v653, v654, v646);
*v45 = v655;
let v666 = *v45;
let v672 = *v537;
let v673 = v672[3];
let v674 = v600[3];
let v675 = fma(v673, v674, v666);
*v45 = v675;
let v686 = *v51;
let v692 = *v554;
let v693 = v692[0];
let v695 = fma(v693, v614, v686);
*v51 = v695;
let v706 = *v51;
let v712 = *v554;
let v713 = v712[1];
let v715 = fma(v713, v634, v706);
*v51 = v715;
let v726 = *v51;
let v732 = *v554;
let v733 = v732[2];
let v735 = fma(v733, v654, v726);
*v51 = v735;
let v746 = *v51;
let v752 = *v554;
let v753 = v752[3];
let v755 = fma(v753, v674, v746);
*v51 = v755;
let v766 = *v57;
let v772 = *v571;
let v773 = v772[0];
let v775 = fma(v773, v614, v766);
*v57 = v775;
let v786 = *v57;
let v792 = *v571;
let v793 = v792[1];
let v795 = fma(v793, v634, v786);
*v57 = v795;
let v806 = *v57;
let v812 = *v571;
let v813 = v812[2];
let v815 = fma(v813, v654, v806);
*v57 = v815;
let v826 = *v57;
let v832 = *v571;
let v833 = v832[3];
let v835 = fma(v833, v674, v826);
*v57 = v835;
let v846 = *v63;
let v852 = *v588;
let v853 = v852[0];
let v855 = fma(v853, v614, v846);
*v63 = v855;
let v866 = *v63;
let v872 = *v588;
let v873 = v872[1];
let v875 = fma(v873, v634, v866);
*v63 = v875;
let v886 = *v63;
let v892 = *v588;
let v893 = v892[2];
let v895 = fma(v893, v654, v886);
*v63 = v895;
let v906 = *v63;
let v912 = *v588;
let v913 = v912[3];
let v915 = fma(v913, v674, v906);
*v63 = v915;

}
workgroupBarrier();

}
let v1081 = v1078[0];
let v930 = u32(v1081);
let v931 = v94 + v930;
let v934 = v82 < v90;
let v935 = v931 < v21;
let v936 = v934 && v935;
if v936 {
let v942 = *v45;
var<function> v1061_store: f32;
let v1061 = &v1061_store;
*v1061 = v942;
let v947 = *v1061;
let v948 = v82 * v21;
let v949 = v948 + v931;
let v953 = &(*v1164)[v949];
*v953 = v947;

}
let v958 = v82 + v49;
let v964 = v958 < v90;
let v966 = v964 && v935;
if v966 {
let v972 = *v51;
var<function> v1062_store: f32;
let v1062 = &v1062_store;
*v1062 = v972;
let v977 = *v1062;
let v978 = v958 * v21;
let v979 = v978 + v931;
let v983 = &(*v1164)[v979];
*v983 = v977;

}
let v988 = v82 + v55;
let v994 = v988 < v90;
let v996 = v994 && v935;
if v996 {
let v1002 = *v57;
var<function> v1063_store: f32;
let v1063 = &v1063_store;
*v1063 = v1002;
let v1007 = *v1063;
let v1008 = v988 * v21;
let v1009 = v1008 + v931;
let v1013 = &(*v1164)[v1009];
*v1013 = v1007;

}
let v1018 = v82 + v61;
let v1024 = v1018 < v90;
let v1026 = v1024 && v935;
if v1026 {
let v1032 = *v63;
var<function> v1064_store: f32;
let v1064 = &v1064_store;
*v1064 = v1032;
let v1037 = *v1064;
let v1038 = v1018 * v21;
let v1039 = v1038 + v931;
let v1043 = &(*v1164)[v1039];
*v1043 = v1037;

}

}
return;

}
