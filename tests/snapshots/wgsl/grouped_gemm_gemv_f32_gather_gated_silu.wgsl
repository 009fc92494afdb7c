var<workgroup> shared_v29: array<vec4<f32>, 20>;
var<workgroup> shared_v33: array<vec4<f32>, 640>;
@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<u32>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 8>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_gemv_f32_gather_gated_silu(@builtin(workgroup_id) v1480: vec3<u32>, @builtin(local_invocation_index) v1483: u32, @builtin(local_invocation_id) v1497: vec3<u32>) {
let v1640 = &v17;
let v1641 = &v13;
let v1642 = &v9;
let v1643 = &v5;
let v1644 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v27 = info_var.scalars_usize[6];
let v28 = info_var.scalars_usize[7];
let v1461 = &shared_v29;
let v1462 = &shared_v33;
var<function> v1463_store: array<f32, 8>= array<f32, 8>();
let v1463 = &v1463_store;
let v45 = &(*v1463)[v3];
let v46 = f32(0.0);
*v45 = v46;
let v49 = u32(1);
let v51 = &(*v1463)[v49];
*v51 = v46;
let v55 = u32(2);
let v57 = &(*v1463)[v55];
*v57 = v46;
let v61 = u32(3);
let v63 = &(*v1463)[v61];
*v63 = v46;
let v67 = u32(4);
let v69 = &(*v1463)[v67];
*v69 = v46;
let v73 = u32(5);
let v75 = &(*v1463)[v73];
*v75 = v46;
let v79 = u32(6);
let v81 = &(*v1463)[v79];
*v81 = v46;
let v85 = u32(7);
let v87 = &(*v1463)[v85];
*v87 = v46;
let v1481 = v1480[0];
let v90 = u32(v1481);
let v92 = v90 * v61;
let v96 = &(*v1642)[v92];
let v97 = *v96;
let v98 = u32(v97);
let v100 = v92 + v49;
let v104 = &(*v1642)[v100];
let v105 = *v104;
let v106 = u32(v105);
let v108 = v92 + v55;
let v112 = &(*v1642)[v108];
let v113 = *v112;
let v114 = u32(v113);
let v1482 = v1480[1];
let v116 = u32(v1482);
let v117 = u32(64);
let v118 = v116 * v117;
let v119 = v98 >= v27;
let v120 = v98 < v28;
let v121 = v119 && v120;
if v121 {
let v123 = u32(16);
for(var v124: u32 = v3; v124 < v22; v124 += v123) {
let v1484 = v1483;
let v127 = u32(v1484);
let v131 = v127 < v123;
if v131 {
let v133 = v127 / v67;
let v135 = v127 % v67;
let v136 = v106 + v133;
let v138 = v114 - v49;
let v139 = min(v136, v138);
let v143 = &(*v1643)[v139];
let v144 = *v143;
let v145 = u32(v144);
let v146 = v145 / v23;
let v148 = v67 * v135;
let v149 = v124 + v148;
let v151 = vec4<f32>(v46);
var<function> v1465_store: vec4<f32>;
let v1465 = &v1465_store;
*v1465 = v151;
let v153 = v149 < v22;
if v153 {
let v154 = v146 * v22;
let v155 = v154 + v149;
let v157 = v155 / v67;
let v161 = &(*v1644)[v157];
let v162 = *v161;
*v1465 = v162;

}
let v164 = v133 * v73;
let v165 = v164 + v135;
let v169 = &(*v1461)[v165];
let v170 = *v1465;
*v169 = v170;

}
let v171 = v98 - v27;
let v172 = v171 * v21;
let v174 = v172 * v55;
let v179 = u32(512);
let v180 = v127 < v179;
if v180 {
let v182 = v127 / v67;
let v184 = v127 % v67;
let v186 = v182 / v117;
let v188 = v182 % v117;
let v189 = v118 + v188;
let v191 = v21 - v49;
let v192 = min(v189, v191);
let v193 = v186 * v21;
let v194 = v174 + v193;
let v195 = v194 + v192;
let v197 = v67 * v184;
let v198 = v124 + v197;
let v200 = vec4<f32>(v46);
var<function> v1466_store: vec4<f32>;
let v1466 = &v1466_store;
*v1466 = v200;
let v202 = v198 < v22;
if v202 {
let v203 = v195 * v22;
let v204 = v203 + v198;
let v206 = v204 / v67;
let v210 = &(*v1641)[v206];
let v211 = *v210;
*v1466 = v211;

}
let v213 = v182 * v73;
let v214 = v213 + v184;
let v218 = &(*v1462)[v214];
let v219 = *v1466;
*v218 = v219;

}
let v223 = v127 + v117;
let v225 = v223 < v179;
if v225 {
let v227 = v223 / v67;
let v229 = v223 % v67;
let v231 = v227 / v117;
let v233 = v227 % v117;
let v234 = v118 + v233;
let v236 = v21 - v49;
let v237 = min(v234, v236);
let v238 = v231 * v21;
let v239 = v174 + v238;
let v240 = v239 + v237;
let v242 = v67 * v229;
let v243 = v124 + v242;
let v245 = vec4<f32>(v46);
var<function> v1467_store: vec4<f32>;
let v1467 = &v1467_store;
*v1467 = v245;
let v247 = v243 < v22;
if v247 {
let v248 = v240 * v22;
let v249 = v248 + v243;
let v251 = v249 / v67;
let v255 = &(*v1641)[v251];
let v256 = *v255;
*v1467 = v256;

}
let v258 = v227 * v73;
let v259 = v258 + v229;
let v263 = &(*v1462)[v259];
let v264 = *v1467;
*v263 = v264;

}
let v267 = u32(128);
let v268 = v127 + v267;
let v270 = v268 < v179;
if v270 {
let v272 = v268 / v67;
let v274 = v268 % v67;
let v276 = v272 / v117;
let v278 = v272 % v117;
let v279 = v118 + v278;
let v281 = v21 - v49;
let v282 = min(v279, v281);
let v283 = v276 * v21;
let v284 = v174 + v283;
let v285 = v284 + v282;
let v287 = v67 * v274;
let v288 = v124 + v287;
let v290 = vec4<f32>(v46);
var<function> v1468_store: vec4<f32>;
let v1468 = &v1468_store;
*v1468 = v290;
let v292 = v288 < v22;
if v292 {
let v293 = v285 * v22;
let v294 = v293 + v288;
let v296 = v294 / v67;
let v300 = &(*v1641)[v296];
let v301 = *v300;
*v1468 = v301;

}
let v303 = v272 * v73;
let v304 = v303 + v274;
let v308 = &(*v1462)[v304];
let v309 = *v1468;
*v308 = v309;

}
let v312 = u32(192);
let v313 = v127 + v312;
let v315 = v313 < v179;
if v315 {
let v317 = v313 / v67;
let v319 = v313 % v67;
let v321 = v317 / v117;
let v323 = v317 % v117;
let v324 = v118 + v323;
let v326 = v21 - v49;
let v327 = min(v324, v326);
let v328 = v321 * v21;
let v329 = v174 + v328;
let v330 = v329 + v327;
let v332 = v67 * v319;
let v333 = v124 + v332;
let v335 = vec4<f32>(v46);
var<function> v1469_store: vec4<f32>;
let v1469 = &v1469_store;
*v1469 = v335;
let v337 = v333 < v22;
if v337 {
let v338 = v330 * v22;
let v339 = v338 + v333;
let v341 = v339 / v67;
let v345 = &(*v1641)[v341];
let v346 = *v345;
*v1469 = v346;

}
let v348 = v317 * v73;
let v349 = v348 + v319;
let v353 = &(*v1462)[v349];
let v354 = *v1469;
*v353 = v354;

}
let v357 = u32(256);
let v358 = v127 + v357;
let v360 = v358 < v179;
if v360 {
let v362 = v358 / v67;
let v364 = v358 % v67;
let v366 = v362 / v117;
let v368 = v362 % v117;
let v369 = v118 + v368;
let v371 = v21 - v49;
let v372 = min(v369, v371);
let v373 = v366 * v21;
let v374 = v174 + v373;
let v375 = v374 + v372;
let v377 = v67 * v364;
let v378 = v124 + v377;
let v380 = vec4<f32>(v46);
var<function> v1470_store: vec4<f32>;
let v1470 = &v1470_store;
*v1470 = v380;
let v382 = v378 < v22;
if v382 {
let v383 = v375 * v22;
let v384 = v383 + v378;
let v386 = v384 / v67;
let v390 = &(*v1641)[v386];
let v391 = *v390;
*v1470 = v391;

}
let v393 = v362 * v73;
let v394 = v393 + v364;
let v398 = &(*v1462)[v394];
let v399 = *v1470;
*v398 = v399;

}
let v402 = u32(320);
let v403 = v127 + v402;
let v405 = v403 < v179;
if v405 {
let v407 = v403 / v67;
let v409 = v403 % v67;
let v411 = v407 / v117;
let v413 = v407 % v117;
let v414 = v118 + v413;
let v416 = v21 - v49;
let v417 = min(v414, v416);
let v418 = v411 * v21;
let v419 = v174 + v418;
let v420 = v419 + v417;
let v422 = v67 * v409;
let v423 = v124 + v422;
let v425 = vec4<f32>(v46);
var<function> v1471_store: vec4<f32>;
let v1471 = &v1471_store;
*v1471 = v425;
let v427 = v423 < v22;
if v427 {
let v428 = v420 * v22;
let v429 = v428 + v423;
let v431 = v429 / v67;
let v435 = &(*v1641)[v431];
let v436 = *v435;
*v1471 = v436;

}
let v438 = v407 * v73;
let v439 = v438 + v409;
let v443 = &(*v1462)[v439];
let v444 = *v1471;
*v443 = v444;

}
let v447 = u32(384);
let v448 = v127 + v447;
let v450 = v448 < v179;
if v450 {
let v452 = v448 / v67;
let v454 = v448 % v67;
let v456 = v452 / v117;
let v458 = v452 % v117;
let v459 = v118 + v458;
let v461 = v21 - v49;
let v462 = min(v459, v461);
let v463 = v456 * v21;
let v464 = v174 + v463;
let v465 = v464 + v462;
let v467 = v67 * v454;
let v468 = v124 + v467;
let v470 = vec4<f32>(v46);
var<function> v1472_store: vec4<f32>;
let v1472 = &v1472_store;
*v1472 = v470;
let v472 = v468 < v22;
if v472 {
let v473 = v465 * v22;
let v474 = v473 + v468;
let v476 = v474 / v67;
let v480 = &(*v1641)[v476];
let v481 = *v480;
*v1472 = v481;

}
let v483 = v452 * v73;
let v484 = v483 + v454;
let v488 = &(*v1462)[v484];
let v489 = *v1472;
*v488 = v489;

}
let v492 = u32(448);
let v493 = v127 + v492;
let v495 = v493 < v179;
if v495 {
let v497 = v493 / v67;
let v499 = v493 % v67;
let v501 = v497 / v117;
let v503 = v497 % v117;
let v504 = v118 + v503;
let v506 = v21 - v49;
let v507 = min(v504, v506);
let v508 = v501 * v21;
let v509 = v174 + v508;
let v510 = v509 + v507;
let v512 = v67 * v499;
let v513 = v124 + v512;
let v515 = vec4<f32>(v46);
var<function> v1473_store: vec4<f32>;
let v1473 = &v1473_store;
*v1473 = v515;
let v517 = v513 < v22;
if v517 {
let v518 = v510 * v22;
let v519 = v518 + v513;
let v521 = v519 / v67;
let v525 = &(*v1641)[v521];
let v526 = *v525;
*v1473 = v526;

}
let v528 = v497 * v73;
let v529 = v528 + v499;
let v533 = &(*v1462)[v529];
let v534 = *v1473;
*v533 = v534;

}
workgroupBarrier();
for(var v538: u32 = v3; v538 < v67; v538 += v49) {
var<function> v1475_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v1475 = &v1475_store;
let v554 = &(*v1461)[v538];
let v555 = *v554;
let v560 = &(*v1475)[v3];
*v560 = v555;
let v567 = v73 + v538;
let v571 = &(*v1461)[v567];
let v572 = *v571;
let v577 = &(*v1475)[v49];
*v577 = v572;
let v1621 = u32(10);
let v584 = v1621 + v538;
let v588 = &(*v1461)[v584];
let v589 = *v588;
let v594 = &(*v1475)[v55];
*v594 = v589;
let v1617 = u32(15);
let v601 = v1617 + v538;
let v605 = &(*v1461)[v601];
let v606 = *v605;
let v611 = &(*v1475)[v61];
*v611 = v606;
let v1498 = v1497[0];
let v613 = u32(v1498);
let v617 = v613 * v73;
let v618 = v617 + v538;
let v622 = &(*v1462)[v618];
let v623 = *v622;
let v629 = *v45;
let v635 = *v560;
let v636 = v635[0];
let v637 = v623[0];
let v638 = fma(v636, v637, v629);
*v45 = v638;
let v649 = *v45;
let v655 = *v560;
let v656 = v655[1];
let v657 = v623[1];
let v658 = fma(v656, v657, v649);
*v45 = v658;
let v669 = *v45;
let v675 = *v560;
let v676 = v675[2];
let v677 = v623[2];
let v678 = fma(v676, v677, v669);
*v45 = v678;
let v689 = *v45;
let v695 = *v560;
let v696 = v695[3];
let v697 = v623[3];
let v698 = fma(v696, v697, v689);
*v45 = v698;
let v709 = *v57;
let v715 = *v577;
let v716 = v715[0];
let v718 = fma(v716, v637, v709);
*v57 = v718;
let v729 = *v57;
let v735 = *v577;
let v736 = v735[1];
let v738 = fma(v736, v657, v729);
*v57 = v738;
let v749 = *v57;
let v755 = *v577;
let v756 = v755[2];
let v758 = fma(v756, v677, v749);
*v57 = v758;
let v769 = *v57;
let v775 = *v577;
let v776 = v775[3];
let v778 = fma(v776, v697, v769);
*v57 = v778;
let v789 = *v69;
let v795 = *v594;
let v796 = v795[0];
let v798 = fma(v796, v637, v789);
*v69 = v798;
let v809 = *v69;
let v815 = *v594;
let v816 = v815[1];
let v818 = fma(v816, v657, v809);
*v69 = v818;
let v829 = *v69;
let v835 = *v594;
let v836 = v835[2];
let v838 = fma(v836, v677, v829);
*v69 = v838;
let v849 = *v69;
let v855 = *v594;
let v856 = v855[3];
let v858 = fma(v856, v697, v849);
*v69 = v858;
let v869 = *v81;
let v875 = *v611;
let v876 = v875[0];
let v878 = fma(v876, v637, v869);
*v81 = v878;
let v889 = *v81;
let v895 = *v611;
let v896 = v895[1];
let v898 = fma(v896, v657, v889);
*v81 = v898;
let v909 = *v81;
let v915 = *v611;
let v916 = v915[2];
let v918 = fma(v916, v677, v909);
*v81 = v918;
let v929 = *v81;
let v935 = *v611;
let v936 = v935[3];
let v938 = fma(v936, v697, v929);
*v81 = v938;
let v947 = v613 + v117;
let v949 = v947 * v73;
let v950 = v949 + v538;
let v954 = &(*v1462)[v950];
let v955 = *v954;
let v961 = *v51;
let v967 = *v560;
let v968 = v967[0];
let v969 = v955[0];
let v970 = fma(v968, v969, v961);
*v51 = v970;
let v981 = *v51;
let v987 = *v560;
let v988 = v987[1];
let v989 = v955[1];
let v990 = fma(v988, v989, v981);
*v51 = v990;
let v1001 = *v51;
let v1007 = *v560;
let v1008 = v1007[2];
let v1009 = v955[2];
let v1010 = fma(v1008, v1009, v1001);
*v51 = v1010;
let v1021 = *v51;
let v1027 = *v560;
let v1028 = v1027[3];
let v1029 = v955[3];
let v1030 = fma(v1028, v1029, v1021);
*v51 = v1030;
let v1041 = *v63;
let v1047 = *v577;
let v1048 = v1047[0];
let v1050 = fma(v1048, v969, v1041);
*v63 = v1050;
let v1061 = *v63;
let v1067 = *v577;
let v1068 = v1067[1];
let v1070 = fma(v1068, v989, v1061);
*v63 = v1070;
let v1081 = *v63;
let v1087 = *v577;
let v1088 = v1087[2];
let v1090 = fma(v1088, v1009, v1081);
*v63 = v1090;
let v1101 = *v63;
let v1107 = *v577;
let v1108 = v1107[3];
let v1110 = fma(v1108, v1029, v1101);
*v63 = v1110;
let v1121 = *v75;
let v1127 = *v594;
let v1128 = v1127[0];
let v1130 = fma(v1128, v969, v1121);
*v75 = v1130;
let v1141 = *v75;
let v1147 = *v594;
let v1148 = v1147[1];
let v1150 = fma(v1148, v989, v1141);
*v75 = v1150;
let v1161 = *v75;
let v1167 = *v594;
let v1168 = v1167[2];
let v1170 = fma(v1168, v1009, v1161);
*v75 = v1170;
let v1181 = *v75;
let v1187 = *v594;
let v1188 = v1187[3];
let v1190 = fma(v1188, v1029, v1181);
*v75 = v1190;
let v1201 = *v87;
let v1207 = *v611;
let v1208 = v1207[0];
let v1210 = fma(v1208, v969, v1201);
*v87 = v1210;
let v1221 = *v87;
let v1227 = *v611;
let v1228 = v1227[1];
let v1230 = fma(v1228, v989, v1221);
*v87 = v1230;
let v1241 = *v87;
let v1247 = *v611;
let v1248 = v1247[2];
let v1250 = fma(v1248, v1009, v1241);
*v87 = v1250;
let v1261 = *v87;
let v1267 = *v611;
let v1268 = v1267[3];
let v1270 = fma(v1268, v1029, v1261);
*v87 = v1270;

}
workgroupBarrier();

}
let v1501 = v1497[0];
let v1285 = u32(v1501);
let v1286 = v118 + v1285;
let v1289 = v106 < v114;
let v1290 = v1286 < v21;
let v1291 = v1289 && v1290;
if v1291 {
let v1297 = *v45;
let v1300 = f32(1.0);
let v1301 = -v1297;
let v1302 = exp(v1301);
let v1303 = v1300 + v1302;
let v1304 = v1297 / v1303;
var<function> v1476_store: f32;
let v1476 = &v1476_store;
*v1476 = v1304;
let v1313 = *v51;
let v1314 = *v1476;
let v1315 = v1314 * v1313;
*v1476 = v1315;
let v1316 = *v1476;
let v1317 = v106 * v21;
let v1318 = v1317 + v1286;
let v1322 = &(*v1640)[v1318];
*v1322 = v1316;

}
let v1327 = v106 + v49;
let v1333 = v1327 < v114;
let v1335 = v1333 && v1290;
if v1335 {
let v1341 = *v57;
let v1344 = f32(1.0);
let v1345 = -v1341;
let v1346 = exp(v1345);
let v1347 = v1344 + v1346;
let v1348 = v1341 / v1347;
var<function> v1477_store: f32;
let v1477 = &v1477_store;
*v1477 = v1348;
let v1357 = *v63;
let v1358 = *v1477;
let v1359 = v1358 * v1357;
*v1477 = v1359;
let v1360 = *v1477;
let v1361 = v1327 * v21;
let v1362 = v1361 + v1286;
let v1366 = &(*v1640)[v1362];
*v1366 = v1360;

}
let v1371 = v106 + v55;
let v1377 = v1371 < v114;
let v1379 = v1377 && v1290;
if v1379 {
let v1385 = *v69;
let v1388 = f32(1.0);
let v1389 = -v1385;
let v1390 = exp(v1389);
let v1391 = v1388 + v1390;
let v1392 = v1385 / v1391;
var<function> v1478_store: f32;
let v1478 = &v1478_store;
*v1478 = v1392;
let v1401 = *v75;
let v1402 = *v1478;
let v1403 = v1402 * v1401;
*v1478 = v1403;
let v1404 = *v1478;
let v1405 = v1371 * v21;
let v1406 = v1405 + v1286;
let v1410 = &(*v1640)[v1406];
*v1410 = v1404;

}
let v1415 = v106 + v61;
let v1421 = v1415 < v114;
let v1423 = v1421 && v1290;
if v1423 {
let v1429 = *v81;
let v1432 = f32(1.0);
let v1433 = -v1429;
let v1434 = exp(v1433);
let v1435 = v1432 + v1434;
let v1436 = v1429 / v1435;
var<function> v1479_store: f32;
let v1479 = &v1479_store;
*v1479 = v1436;
let v1445 = *v87;
let v1446 = *v1479;
let v1447 = v1446 * v1445;
*v1479 = v1447;
let v1448 = *v1479;
let v1449 = v1415 * v21;
let v1450 = v1449 + v1286;
let v1454 = &(*v1640)[v1450];
*v1454 = v1448;

}

}
return;

}
