enable f16;
var<workgroup> shared_v29: array<vec4<f32>, 20>;
var<workgroup> shared_v33: array<vec4<f32>, 320>;
@group(0) @binding(4) var<storage, read_write> v17: array<f16>;
@group(0) @binding(3) var<storage, read> v13: array<f16>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f16>>;
struct info_st { scalars_usize: array<u32, 8>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_gemv_f16_sorted_in_out(@builtin(workgroup_id) v1086: vec3<u32>, @builtin(local_invocation_index) v1089: u32, @builtin(local_invocation_id) v1099: vec3<u32>) {
let v1185 = &v17;
let v1186 = &v13;
let v1187 = &v9;
let v1188 = &v5;
let v1189 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v27 = info_var.scalars_usize[6];
let v28 = info_var.scalars_usize[7];
let v1071 = &shared_v29;
let v1072 = &shared_v33;
var<function> v1073_store: array<f32, 4>= array<f32, 4>();
let v1073 = &v1073_store;
let v39 = u32(4);
let v45 = &(*v1073)[v3];
let v46 = f32(0.0);
*v45 = v46;
let v49 = u32(1);
let v51 = &(*v1073)[v49];
*v51 = v46;
let v55 = u32(2);
let v57 = &(*v1073)[v55];
*v57 = v46;
let v61 = u32(3);
let v63 = &(*v1073)[v61];
*v63 = v46;
let v1087 = v1086[0];
let v66 = u32(v1087);
let v68 = v66 * v61;
let v72 = &(*v1187)[v68];
let v73 = *v72;
let v74 = u32(v73);
let v76 = v68 + v49;
let v80 = &(*v1187)[v76];
let v81 = *v80;
let v82 = u32(v81);
let v84 = v68 + v55;
let v88 = &(*v1187)[v84];
let v89 = *v88;
let v90 = u32(v89);
let v1088 = v1086[1];
let v92 = u32(v1088);
let v93 = u32(64);
let v94 = v92 * v93;
let v95 = v74 >= v27;
let v96 = v74 < v28;
let v97 = v95 && v96;
if v97 {
let v99 = u32(16);
for(var v100: u32 = v3; v100 < v22; v100 += v99) {
let v1090 = v1089;
let v103 = u32(v1090);
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
var<function> v1075_store: vec4<f32>;
let v1075 = &v1075_store;
*v1075 = v120;
let v122 = v118 < v22;
if v122 {
let v123 = v115 * v22;
let v124 = v123 + v118;
let v126 = v124 / v39;
let v130 = &(*v1189)[v126];
let v131 = *v130;
let v132 = vec4<f32>(v131);
*v1075 = v132;

}
let v133 = u32(5);
let v134 = v109 * v133;
let v135 = v134 + v111;
let v139 = &(*v1071)[v135];
let v140 = *v1075;
*v139 = v140;

}
let v141 = v74 - v27;
let v142 = v141 * v21;
let v149 = u32(256);
let v150 = v103 < v149;
if v150 {
let v152 = v103 % v93;
let v154 = v103 / v93;
let v156 = v39 * v154;
let v157 = v100 + v156;
let v158 = v94 + v152;
let v160 = v21 - v49;
let v161 = min(v158, v160);
let v163 = vec4<f32>(v46);
var<function> v1076_store: vec4<f32>;
let v1076 = &v1076_store;
*v1076 = v163;
let v167 = v157 < v22;
if v167 {
let v168 = v142 * v22;
let v171 = v157 * v21;
let v172 = v168 + v171;
let v173 = v172 + v161;
let v177 = &(*v1186)[v173];
let v178 = *v177;
let v179 = f32(v178);
let v180 = *v1076;
let v181 = vec4<f32>(v179, v180[1], v180[2], v180[3]);
*v1076 = v181;

}
let v183 = v157 + v49;
let v184 = v183 < v22;
if v184 {
let v185 = v142 * v22;
let v188 = v183 * v21;
let v189 = v185 + v188;
let v190 = v189 + v161;
let v194 = &(*v1186)[v190];
let v195 = *v194;
let v196 = f32(v195);
let v197 = *v1076;
let v198 = vec4<f32>(v197[0], v196, v197[2], v197[3]);
*v1076 = v198;

}
let v200 = v157 + v55;
let v201 = v200 < v22;
if v201 {
let v202 = v142 * v22;
let v205 = v200 * v21;
let v206 = v202 + v205;
let v207 = v206 + v161;
let v211 = &(*v1186)[v207];
let v212 = *v211;
let v213 = f32(v212);
let v214 = *v1076;
let v215 = vec4<f32>(v214[0], v214[1], v213, v214[3]);
*v1076 = v215;

}
let v217 = v157 + v61;
let v218 = v217 < v22;
if v218 {
let v219 = v142 * v22;
let v222 = v217 * v21;
let v223 = v219 + v222;
let v224 = v223 + v161;
let v228 = &(*v1186)[v224];
let v229 = *v228;
let v230 = f32(v229);
let v231 = *v1076;
let v232 = vec4<f32>(v231[0], v231[1], v231[2], v230);
*v1076 = v232;

}
let v233 = u32(5);
let v234 = v152 * v233;
let v235 = v234 + v154;
let v239 = &(*v1072)[v235];
let v240 = *v1076;
*v239 = v240;

}
let v244 = v103 + v93;
let v246 = v244 < v149;
if v246 {
let v248 = v244 % v93;
let v250 = v244 / v93;
let v252 = v39 * v250;
let v253 = v100 + v252;
let v254 = v94 + v248;
let v256 = v21 - v49;
let v257 = min(v254, v256);
let v259 = vec4<f32>(v46);
var<function> v1077_store: vec4<f32>;
let v1077 = &v1077_store;
*v1077 = v259;
let v263 = v253 < v22;
if v263 {
let v264 = v142 * v22;
let v267 = v253 * v21;
let v268 = v264 + v267;
let v269 = v268 + v257;
let v273 = &(*v1186)[v269];
let v274 = *v273;
let v275 = f32(v274);
let v276 = *v1077;
let v277 = vec4<f32>(v275, v276[1], v276[2], v276[3]);
*v1077 = v277;

}
let v279 = v253 + v49;
let v280 = v279 < v22;
if v280 {
let v281 = v142 * v22;
let v284 = v279 * v21;
let v285 = v281 + v284;
let v286 = v285 + v257;
let v290 = &(*v1186)[v286];
let v291 = *v290;
let v292 = f32(v291);
let v293 = *v1077;
let v294 = vec4<f32>(v293[0], v292, v293[2], v293[3]);
*v1077 = v294;

}
let v296 = v253 + v55;
let v297 = v296 < v22;
if v297 {
let v298 = v142 * v22;
let v301 = v296 * v21;
let v302 = v298 + v301;
let v303 = v302 + v257;
let v307 = &(*v1186)[v303];
let v308 = *v307;
let v309 = f32(v308);
let v310 = *v1077;
let v311 = vec4<f32>(v310[0], v310[1], v309, v310[3]);
*v1077 = v311;

}
let v313 = v253 + v61;
let v314 = v313 < v22;
if v314 {
let v315 = v142 * v22;
let v318 = v313 * v21;
let v319 = v315 + v318;
let v320 = v319 + v257;
let v324 = &(*v1186)[v320];
let v325 = *v324;
let v326 = f32(v325);
let v327 = *v1077;
let v328 = vec4<f32>(v327[0], v327[1], v327[2], v326);
*v1077 = v328;

}
let v329 = u32(5);
let v330 = v248 * v329;
let v331 = v330 + v250;
let v335 = &(*v1072)[v331];
let v336 = *v1077;
*v335 = v336;

}
let v339 = u32(128);
let v340 = v103 + v339;
let v342 = v340 < v149;
if v342 {
let v344 = v340 % v93;
let v346 = v340 / v93;
let v348 = v39 * v346;
let v349 = v100 + v348;
let v350 = v94 + v344;
let v352 = v21 - v49;
let v353 = min(v350, v352);
let v355 = vec4<f32>(v46);
var<function> v1078_store: vec4<f32>;
let v1078 = &v1078_store;
*v1078 = v355;
let v359 = v349 < v22;
if v359 {
let v360 = v142 * v22;
let v363 = v349 * v21;
let v364 = v360 + v363;
let v365 = v364 + v353;
let v369 = &(*v1186)[v365];
let v370 = *v369;
let v371 = f32(v370);
let v372 = *v1078;
let v373 = vec4<f32>(v371, v372[1], v372[2], v372[3]);
*v1078 = v373;

}
let v375 = v349 + v49;
let v376 = v375 < v22;
if v376 {
let v377 = v142 * v22;
let v380 = v375 * v21;
let v381 = v377 + v380;
let v382 = v381 + v353;
let v386 = &(*v1186)[v382];
let v387 = *v386;
let v388 = f32(v387);
let v389 = *v1078;
let v390 = vec4<f32>(v389[0], v388, v389[2], v389[3]);
*v1078 = v390;

}
let v392 = v349 + v55;
let v393 = v392 < v22;
if v393 {
let v394 = v142 * v22;
let v397 = v392 * v21;
let v398 = v394 + v397;
let v399 = v398 + v353;
let v403 = &(*v1186)[v399];
let v404 = *v403;
let v405 = f32(v404);
let v406 = *v1078;
let v407 = vec4<f32>(v406[0], v406[1], v405, v406[3]);
*v1078 = v407;

}
let v409 = v349 + v61;
let v410 = v409 < v22;
if v410 {
let v411 = v142 * v22;
let v414 = v409 * v21;
let v415 = v411 + v414;
let v416 = v415 + v353;
let v420 = &(*v1186)[v416];
let v421 = *v420;
let v422 = f32(v421);
let v423 = *v1078;
let v424 = vec4<f32>(v423[0], v423[1], v423[2], v422);
*v1078 = v424;

}
let v425 = u32(5);
let v426 = v344 * v425;
let v427 = v426 + v346;
let v431 = &(*v1072)[v427];
let v432 = *v1078;
*v431 = v432;

}
let v435 = u32(192);
let v436 = v103 + v435;
let v438 = v436 < v149;
if v438 {
let v440 = v436 % v93;
let v442 = v436 / v93;
let v444 = v39 * v442;
let v445 = v100 + v444;
let v446 = v94 + v440;
let v448 = v21 - v49;
let v449 = min(v446, v448);
let v451 = vec4<f32>(v46);
var<function> v1079_store: vec4<f32>;
let v1079 = &v1079_store;
*v1079 = v451;
let v455 = v445 < v22;
if v455 {
let v456 = v142 * v22;
let v459 = v445 * v21;
let v460 = v456 + v459;
let v461 = v460 + v449;
let v465 = &(*v1186)[v461];
let v466 = *v465;
let v467 = f32(v466);
let v468 = *v1079;
let v469 = vec4<f32>(v467, v468[1], v468[2], v468[3]);
*v1079 = v469;

}
let v471 = v445 + v49;
let v472 = v471 < v22;
if v472 {
let v473 = v142 * v22;
let v476 = v471 * v21;
let v477 = v473 + v476;
let v478 = v477 + v449;
let v482 = &(*v1186)[v478];
let v483 = *v482;
let v484 = f32(v483);
let v485 = *v1079;
let v486 = vec4<f32>(v485[0], v484, v485[2], v485[3]);
*v1079 = v486;

}
let v488 = v445 + v55;
let v489 = v488 < v22;
if v489 {
let v490 = v142 * v22;
let v493 = v488 * v21;
let v494 = v490 + v493;
let v495 = v494 + v449;
let v499 = &(*v1186)[v495];
let v500 = *v499;
let v501 = f32(v500);
let v502 = *v1079;
let v503 = vec4<f32>(v502[0], v502[1], v501, v502[3]);
*v1079 = v503;

}
let v505 = v445 + v61;
let v506 = v505 < v22;
if v506 {
let v507 = v142 * v22;
let v510 = v505 * v21;
let v511 = v507 + v510;
let v512 = v511 + v449;
let v516 = &(*v1186)[v512];
let v517 = *v516;
let v518 = f32(v517);
let v519 = *v1079;
let v520 = vec4<f32>(v519[0], v519[1], v519[2], v518);
*v1079 = v520;

}
let v521 = u32(5);
let v522 = v440 * v521;
let v523 = v522 + v442;
let v527 = &(*v1072)[v523];
let v528 = *v1079;
*v527 = v528;

}
workgroupBarrier();
for(var v532: u32 = v3; v532 < v39; v532 += v49) {
var<function> v1081_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v1081 = &v1081_store;
let v542 = u32(5);
let v548 = &(*v1071)[v532];
let v549 = *v548;
let v554 = &(*v1081)[v3];
*v554 = v549;
let v561 = v542 + v532;
let v565 = &(*v1071)[v561];
let v566 = *v565;
let v571 = &(*v1081)[v49];
*v571 = v566;
let v1170 = u32(10);
let v578 = v1170 + v532;
let v582 = &(*v1071)[v578];
let v583 = *v582;
let v588 = &(*v1081)[v55];
*v588 = v583;
let v1166 = u32(15);
let v595 = v1166 + v532;
let v599 = &(*v1071)[v595];
let v600 = *v599;
let v605 = &(*v1081)[v61];
*v605 = v600;
let v1100 = v1099[0];
let v607 = u32(v1100);
let v611 = v607 * v542;
let v612 = v611 + v532;
let v616 = &(*v1072)[v612];
let v617 = *v616;
let v623 = *v45;
let v629 = *v554;
let v630 = v629[0];
let v631 = v617[0];
let v632 = fma(v630, v631, v623);
*v45 = v632;
let v643 = *v45;
let v649 = *v554;
let v650 = v649[1];
let v651 = v617[1];
let v652 = fma(v650, v651, v643);
*v45 = v652;
let v663 = *v45;
let v669 = *v554;
let v670 = v669[2];
let v671 = v617[2];
let v672 = fma(v670, v671, v663);
*v45 = v672;
let v683 = *v45;
let v689 = *v554;
let v690 = v689[3];
let v691 = v617[3];
let v692 = fma(v690, v691, v683);
*v45 = v692;
let v703 = *v51;
let v709 = *v571;
let v710 = v709[0];
let v712 = fma(v710, v631, v703);
*v51 = v712;
let v723 = *v51;
let v729 = *v571;
let v730 = v729[1];
let v732 = fma(v730, v651, v723);
*v51 = v732;
let v743 = *v51;
let v749 = *v571;
let v750 = v749[2];
let v752 = fma(v750, v671, v743);
*v51 = v752;
let v763 = *v51;
let v769 = *v571;
let v770 = v769[3];
let v772 = fma(v770, v691, v763);
*v51 = v772;
let v783 = *v57;
let v789 = *v588;
let v790 = v789[0];
let v792 = fma(v790, v631, v783);
*v57 = v792;
let v803 = *v57;
let v809 = *v588;
let v810 = v809[1];
let v812 = fma(v810, v651, v803);
*v57 = v812;
let v823 = *v57;
let v829 = *v588;
let v830 = v829[2];
let v832 = fma(v830, v671, v823);
*v57 = v832;
let v843 = *v57;
let v849 = *v588;
let v850 = v849[3];
let v852 = fma(v850, v691, v843);
*v57 = v852;
let v863 = *v63;
let v869 = *v605;
let v870 = v869[0];
let v872 = fma(v870, v631, v863);
*v63 = v872;
let v883 = *v63;
let v889 = *v605;
let v890 = v889[1];
let v892 = fma(v890, v651, v883);
*v63 = v892;
let v903 = *v63;
let v909 = *v605;
let v910 = v909[2];
let v912 = fma(v910, v671, v903);
*v63 = v912;
let v923 = *v63;
let v929 = *v605;
let v930 = v929[3];
let v932 = fma(v930, v691, v923);
*v63 = v932;

}
workgroupBarrier();

}
let v1102 = v1099[0];
let v947 = u32(v1102);
let v948 = v94 + v947;
let v951 = v82 < v90;
let v952 = v948 < v21;
let v953 = v951 && v952;
if v953 {
let v959 = *v45;
var<function> v1082_store: f32;
let v1082 = &v1082_store;
*v1082 = v959;
let v964 = *v1082;
let v965 = f16(v964);
let v966 = v82 * v21;
let v967 = v966 + v948;
let v971 = &(*v1185)[v967];
*v971 = v965;

}
let v976 = v82 + v49;
let v982 = v976 < v90;
let v984 = v982 && v952;
if v984 {
let v990 = *v51;
var<function> v1083_store: f32;
let v1083 = &v1083_store;
*v1083 = v990;
let v995 = *v1083;
let v996 = f16(v995);
let v997 = v976 * v21;
let v998 = v997 + v948;
let v1002 = &(*v1185)[v998];
*v1002 = v996;

}
let v1007 = v82 + v55;
let v1013 = v1007 < v90;
let v1015 = v1013 && v952;
if v1015 {
let v1021 = *v57;
var<function> v1084_store: f32;
let v1084 = &v1084_store;
*v1084 = v1021;
let v1026 = *v1084;
let v1027 = f16(v1026);
let v1028 = v1007 * v21;
let v1029 = v1028 + v948;
let v1033 = &(*v1185)[v1029];
*v1033 = v1027;

}
let v1038 = v82 + v61;
let v1044 = v1038 < v90;
let v1046 = v1044 && v952;
if v1046 {
let v1052 = *v63;
var<function> v1085_store: f32;
let v1085 = &v1085_store;
*v1085 = v1052;
let v1057 = *v1085;
let v1058 = f16(v1057);
let v1059 = v1038 * v21;
let v1060 = v1059 + v948;
let v1064 = &(*v1185)[v1060];
*v1064 = v1058;

}

}
return;

}
