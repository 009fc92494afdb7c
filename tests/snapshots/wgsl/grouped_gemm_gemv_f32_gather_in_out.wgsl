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
fn grouped_gemm_gemv_f32_gather_in_out(@builtin(workgroup_id) v1072: vec3<u32>, @builtin(local_invocation_index) v1075: u32, @builtin(local_invocation_id) v1085: vec3<u32>) {
let v1171 = &v17;
let v1172 = &v13;
let v1173 = &v9;
let v1174 = &v5;
let v1175 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v27 = info_var.scalars_usize[6];
let v28 = info_var.scalars_usize[7];
let v1057 = &shared_v29;
let v1058 = &shared_v33;
var<function> v1059_store: array<f32, 4>= array<f32, 4>();
let v1059 = &v1059_store;
let v39 = u32(4);
let v45 = &(*v1059)[v3];
let v46 = f32(0.0);
*v45 = v46;
let v49 = u32(1);
let v51 = &(*v1059)[v49];
*v51 = v46;
let v55 = u32(2);
let v57 = &(*v1059)[v55];
*v57 = v46;
let v61 = u32(3);
let v63 = &(*v1059)[v61];
*v63 = v46;
let v1073 = v1072[0];
let v66 = u32(v1073);
let v68 = v66 * v61;
let v72 = &(*v1173)[v68];
let v73 = *v72;
let v74 = u32(v73);
let v76 = v68 + v49;
let v80 = &(*v1173)[v76];
let v81 = *v80;
let v82 = u32(v81);
let v84 = v68 + v55;
let v88 = &(*v1173)[v84];
let v89 = *v88;
let v90 = u32(v89);
let v1074 = v1072[1];
let v92 = u32(v1074);
let v93 = u32(64);
let v94 = v92 * v93;
let v95 = v74 >= v27;
let v96 = v74 < v28;
let v97 = v95 && v96;
if v97 {
let v99 = u32(16);
for(var v100: u32 = v3; v100 < v22; v100 += v99) {
let v1076 = v1075;
let v103 = u32(v1076);
let v107 = v103 < v99;
if v107 {
let v109 = v103 / v39;
let v111 = v103 % v39;
let v112 = v82 + v109;
let v114 = v90 - v49;
let v115 = min(v112, v114);
let v119 = &(*v1174)[v115];
let v120 = *v119;
let v121 = u32(v120);
let v122 = v121 / v23;
let v124 = v39 * v111;
let v125 = v100 + v124;
let v127 = vec4<f32>(v46);
var<function> v1061_store: vec4<f32>;
let v1061 = &v1061_store;
*v1061 = v127;
let v129 = v125 < v22;
if v129 {
let v130 = v122 * v22;
let v131 = v130 + v125;
let v133 = v131 / v39;
let v137 = &(*v1175)[v133];
let v138 = *v137;
*v1061 = v138;

}
let v139 = u32(5);
let v140 = v109 * v139;
let v141 = v140 + v111;
let v145 = &(*v1057)[v141];
let v146 = *v1061;
*v145 = v146;

}
let v147 = v74 - v27;
let v148 = v147 * v21;
let v155 = u32(256);
let v156 = v103 < v155;
if v156 {
let v158 = v103 % v93;
let v160 = v103 / v93;
let v162 = v39 * v160;
let v163 = v100 + v162;
let v164 = v94 + v158;
let v166 = v21 - v49;
let v167 = min(v164, v166);
let v169 = vec4<f32>(v46);
var<function> v1062_store: vec4<f32>;
let v1062 = &v1062_store;
*v1062 = v169;
let v173 = v163 < v22;
if v173 {
let v174 = v148 * v22;
let v177 = v163 * v21;
let v178 = v174 + v177;
let v179 = v178 + v167;
let v183 = &(*v1172)[v179];
let v184 = *v183;
let v185 = *v1062;
let v186 = vec4<f32>(v184, v185[1], v185[2], v185[3]);
*v1062 = v186;

}
let v188 = v163 + v49;
let v189 = v188 < v22;
if v189 {
let v190 = v148 * v22;
let v193 = v188 * v21;
let v194 = v190 + v193;
let v195 = v194 + v167;
let v199 = &(*v1172)[v195];
let v200 = *v199;
let v201 = *v1062;
let v202 = vec4<f32>(v201[0], v200, v201[2], v201[3]);
*v1062 = v202;

}
let v204 = v163 + v55;
let v205 = v204 < v22;
if v205 {
let v206 = v148 * v22;
let v209 = v204 * v21;
let v210 = v206 + v209;
let v211 = v210 + v167;
let v215 = &(*v1172)[v211];
let v216 = *v215;
let v217 = *v1062;
let v218 = vec4<f32>(v217[0], v217[1], v216, v217[3]);
*v1062 = v218;

}
let v220 = v163 + v61;
let v221 = v220 < v22;
if v221 {
let v222 = v148 * v22;
let v225 = v220 * v21;
let v226 = v222 + v225;
let v227 = v226 + v167;
let v231 = &(*v1172)[v227];
let v232 = *v231;
let v233 = *v1062;
let v234 = vec4<f32>(v233[0], v233[1], v233[2], v232);
*v1062 = v234;

}
let v235 = u32(5);
let v236 = v158 * v235;
let v237 = v236 + v160;
let v241 = &(*v1058)[v237];
let v242 = *v1062;
*v241 = v242;

}
let v246 = v103 + v93;
let v248 = v246 < v155;
if v248 {
let v250 = v246 % v93;
let v252 = v246 / v93;
let v254 = v39 * v252;
let v255 = v100 + v254;
let v256 = v94 + v250;
let v258 = v21 - v49;
let v259 = min(v256, v258);
let v261 = vec4<f32>(v46);
var<function> v1063_store: vec4<f32>;
let v1063 = &v1063_store;
*v1063 = v261;
let v265 = v255 < v22;
if v265 {
let v266 = v148 * v22;
let v269 = v255 * v21;
let v270 = v266 + v269;
let v271 = v270 + v259;
let v275 = &(*v1172)[v271];
let v276 = *v275;
let v277 = *v1063;
let v278 = vec4<f32>(v276, v277[1], v277[2], v277[3]);
*v1063 = v278;

}
let v280 = v255 + v49;
let v281 = v280 < v22;
if v281 {
let v282 = v148 * v22;
let v285 = v280 * v21;
let v286 = v282 + v285;
let v287 = v286 + v259;
let v291 = &(*v1172)[v287];
let v292 = *v291;
let v293 = *v1063;
let v294 = vec4<f32>(v293[0], v292, v293[2], v293[3]);
*v1063 = v294;

}
let v296 = v255 + v55;
let v297 = v296 < v22;
if v297 {
let v298 = v148 * v22;
let v301 = v296 * v21;
let v302 = v298 + v301;
let v303 = v302 + v259;
let v307 = &(*v1172)[v303];
let v308 = *v307;
let v309 = *v1063;
let v310 = vec4<f32>(v309[0], v309[1], v308, v309[3]);
*v1063 = v310;

}
let v312 = v255 + v61;
let v313 = v312 < v22;
if v313 {
let v314 = v148 * v22;
let v317 = v312 * v21;
let v318 = v314 + v317;
let v319 = v318 + v259;
let v323 = &(*v1172)[v319];
let v324 = *v323;
let v325 = *v1063;
let v326 = vec4<f32>(v325[0], v325[1], v325[2], v324);
*v1063 = v326;

}
let v327 = u32(5);
let v328 = v250 * v327;
let v329 = v328 + v252;
let v333 = &(*v1058)[v329];
let v334 = *v1063;
*v333 = v334;

}
let v337 = u32(128);
let v338 = v103 + v337;
let v340 = v338 < v155;
if v340 {
let v342 = v338 % v93;
let v344 = v338 / v93;
let v346 = v39 * v344;
let v347 = v100 + v346;
let v348 = v94 + v342;
let v350 = v21 - v49;
let v351 = min(v348, v350);
let v353 = vec4<f32>(v46);
var<function> v1064_store: vec4<f32>;
let v1064 = &v1064_store;
*v1064 = v353;
let v357 = v347 < v22;
if v357 {
let v358 = v148 * v22;
let v361 = v347 * v21;
let v362 = v358 + v361;
let v363 = v362 + v351;
let v367 = &(*v1172)[v363];
let v368 = *v367;
let v369 = *v1064;
let v370 = vec4<f32>(v368, v369[1], v369[2], v369[3]);
*v1064 = v370;

}
let v372 = v347 + v49;
let v373 = v372 < v22;
if v373 {
let v374 = v148 * v22;
let v377 = v372 * v21;
let v378 = v374 + v377;
let v379 = v378 + v351;
let v383 = &(*v1172)[v379];
let v384 = *v383;
let v385 = *v1064;
let v386 = vec4<f32>(v385[0], v384, v385[2], v385[3]);
*v1064 = v386;

}
let v388 = v347 + v55;
let v389 = v388 < v22;
if v389 {
let v390 = v148 * v22;
let v393 = v388 * v21;
let v394 = v390 + v393;
let v395 = v394 + v351;
let v399 = &(*v1172)[v395];
let v400 = *v399;
let v401 = *v1064;
let v402 = vec4<f32>(v401[0], v401[1], v400, v401[3]);
*v1064 = v402;

}
let v404 = v347 + v61;
let v405 = v404 < v22;
if v405 {
let v406 = v148 * v22;
let v409 = v404 * v21;
let v410 = v406 + v409;
let v411 = v410 + v351;
let v415 = &(*v1172)[v411];
let v416 = *v415;
let v417 = *v1064;
let v418 = vec4<f32>(v417[0], v417[1], v417[2], v416);
*v1064 = v418;

}
let v419 = u32(5);
let v420 = v342 * v419;
let v421 = v420 + v344;
let v425 = &(*v1058)[v421];
let v426 = *v1064;
*v425 = v426;

}
let v429 = u32(192);
let v430 = v103 + v429;
let v432 = v430 < v155;
if v432 {
let v434 = v430 % v93;
let v436 = v430 / v93;
let v438 = v39 * v436;
let v439 = v100 + v438;
let v440 = v94 + v434;
let v442 = v21 - v49;
let v443 = min(v440, v442);
let v445 = vec4<f32>(v46);
var<function> v1065_store: vec4<f32>;
let v1065 = &v1065_store;
*v1065 = v445;
let v449 = v439 < v22;
if v449 {
let v450 = v148 * v22;
let v453 = v439 * v21;
let v454 = v450 + v453;
let v455 = v454 + v443;
let v459 = &(*v1172)[v455];
let v460 = *v459;
let v461 = *v1065;
let v462 = vec4<f32>(v460, v461[1], v461[2], v461[3]);
*v1065 = v462;

}
let v464 = v439 + v49;
let v465 = v464 < v22;
if v465 {
let v466 = v148 * v22;
let v469 = v464 * v21;
let v470 = v466 + v469;
let v471 = v470 + v443;
let v475 = &(*v1172)[v471];
let v476 = *v475;
let v477 = *v1065;
let v478 = vec4<f32>(v477[0], v476, v477[2], v477[3]);
*v1065 = v478;

}
let v480 = v439 + v55;
let v481 = v480 < v22;
if v481 {
let v482 = v148 * v22;
let v485 = v480 * v21;
let v486 = v482 + v485;
let v487 = v486 + v443;
let v491 = &(*v1172)[v487];
let v492 = *v491;
let v493 = *v1065;
let v494 = vec4<f32>(v493[0], v493[1], v492, v493[3]);
*v1065 = v494;

}
let v496 = v439 + v61;
let v497 = v496 < v22;
if v497 {
let v498 = v148 * v22;
let v501 = v496 * v21;
let v502 = v498 + v501;
let v503 = v502 + v443;
let v507 = &(*v1172)[v503];
let v508 = *v507;
let v509 = *v1065;
let v510 = vec4<f32>(v509[0], v509[1], v509[2], v508);
*v1065 = v510;

}
let v511 = u32(5);
let v512 = v434 * v511;
let v513 = v512 + v436;
let v517 = &(*v1058)[v513];
let v518 = *v1065;
*v517 = v518;

}
workgroupBarrier();
for(var v522: u32 = v3; v522 < v39; v522 += v49) {
var<function> v1067_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v1067 = &v1067_store;
let v532 = u32(5);
let v538 = &(*v1057)[v522];
let v539 = *v538;
let v544 = &(*v1067)[v3];
*v544 = v539;
let v551 = v532 + v522;
let v555 = &(*v1057)[v551];
let v556 = *v555;
let v561 = &(*v1067)[v49];
*v561 = v556;
let v1156 = u32(10);
let v568 = v1156 + v522;
let v572 = &(*v1057)[v568];
let v573 = *v572;
let v578 = &(*v1067)[v55];
*v578 = v573;
let v1152 = u32(15);
let v585 = v1152 + v522;
let v589 = &(*v1057)[v585];
let v590 = *v589;
let v595 = &(*v1067)[v61];
*v595 = v590;
let v1086 = v1085[0];
let v597 = u32(v1086);
let v601 = v597 * v532;
let v602 = v601 + v522;
let v606 = &(*v1058)[v602];
let v607 = *v606;
let v613 = *v45;
let v619 = *v544;
let v620 = v619[0];
let v621 = v607[0];
let v622 = fma(v620, v621, v613);
*v45 = v622;
let v633 = *v45;
let v639 = *v544;
let v640 = v639[1];
let v641 = v607[1];
let v642 = fma(v640, v641, v633);
*v45 = v642;
let v653 = *v45;
let v659 = *v544;
let v660 = v659[2];
let v661 = v607[2];
let v662 = fma(v660, v661, v653);
*v45 = v662;
let v673 = *v45;
let v679 = *v544;
let v680 = v679[3];
let v681 = v607[3];
let v682 = fma(v680, v681, v673);
*v45 = v682;
let v693 = *v51;
let v699 = *v561;
let v700 = v699[0];
let v702 = fma(v700, v621, v693);
*v51 = v702;
let v713 = *v51;
let v719 = *v561;
let v720 = v719[1];
let v722 = fma(v720, v641, v713);
*v51 = v722;
let v733 = *v51;
let v739 = *v561;
let v740 = v739[2];
let v742 = fma(v740, v661, v733);
*v51 = v742;
let v753 = *v51;
let v759 = *v561;
let v760 = v759[3];
let v762 = fma(v760, v681, v753);
*v51 = v762;
let v773 = *v57;
let v779 = *v578;
let v780 = v779[0];
let v782 = fma(v780, v621, v773);
*v57 = v782;
let v793 = *v57;
let v799 = *v578;
let v800 = v799[1];
let v802 = fma(v800, v641, v793);
*v57 = v802;
let v813 = *v57;
let v819 = *v578;
let v820 = v819[2];
let v822 = fma(v820, v661, v813);
*v57 = v822;
let v833 = *v57;
let v839 = *v578;
let v840 = v839[3];
let v842 = fma(v840, v681, v833);
*v57 = v842;
let v853 = *v63;
let v859 = *v595;
let v860 = v859[0];
let v862 = fma(v860, v621, v853);
*v63 = v862;
let v873 = *v63;
let v879 = *v595;
let v880 = v879[1];
let v882 = fma(v880, v641, v873);
*v63 = v882;
let v893 = *v63;
let v899 = *v595;
let v900 = v899[2];
let v902 = fma(v900, v661, v893);
*v63 = v902;
let v913 = *v63;
let v919 = *v595;
let v920 = v919[3];
let v922 = fma(v920, v681, v913);
*v63 = v922;

}
workgroupBarrier();

}
let v1088 = v1085[0];
let v937 = u32(v1088);
let v938 = v94 + v937;
let v941 = v82 < v90;
let v942 = v938 < v21;
let v943 = v941 && v942;
if v943 {
let v949 = *v45;
var<function> v1068_store: f32;
let v1068 = &v1068_store;
*v1068 = v949;
let v954 = *v1068;
let v955 = v82 * v21;
let v956 = v955 + v938;
let v960 = &(*v1171)[v956];
*v960 = v954;

}
let v965 = v82 + v49;
let v971 = v965 < v90;
let v973 = v971 && v942;
if v973 {
let v979 = *v51;
var<function> v1069_store: f32;
let v1069 = &v1069_store;
*v1069 = v979;
let v984 = *v1069;
let v985 = v965 * v21;
let v986 = v985 + v938;
let v990 = &(*v1171)[v986];
*v990 = v984;

}
let v995 = v82 + v55;
let v1001 = v995 < v90;
let v1003 = v1001 && v942;
if v1003 {
let v1009 = *v57;
var<function> v1070_store: f32;
let v1070 = &v1070_store;
*v1070 = v1009;
let v1014 = *v1070;
let v1015 = v995 * v21;
let v1016 = v1015 + v938;
let v1020 = &(*v1171)[v1016];
*v1020 = v1014;

}
let v1025 = v82 + v61;
let v1031 = v1025 < v90;
let v1033 = v1031 && v942;
if v1033 {
let v1039 = *v63;
var<function> v1071_store: f32;
let v1071 = &v1071_store;
*v1071 = v1039;
let v1044 = *v1071;
let v1045 = v1025 * v21;
let v1046 = v1045 + v938;
let v1050 = &(*v1171)[v1046];
*v1050 = v1044;

}

}
return;

}
