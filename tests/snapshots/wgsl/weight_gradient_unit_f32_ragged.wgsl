var<workgroup> shared_v25: array<vec4<f32>, 256>;
var<workgroup> shared_v29: array<vec4<f32>, 256>;
@group(0) @binding(4) var<storage, read_write> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read> v5: array<f32>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 6> }
@group(0) @binding(5) var<storage, read> info_var: info_st;
@compute @workgroup_size(16, 16, 1)
fn weight_gradient_unit_f32_ragged(@builtin(workgroup_id) v1706: vec3<u32>, @builtin(local_invocation_index) v1710: u32, @builtin(local_invocation_id) v1713: vec3<u32>) {
let v1888 = &v17;
let v1889 = &v13;
let v1890 = &v9;
let v1891 = &v5;
let v1892 = &v1;
let v3 = u32(0);
let v21 = info_var.scalars_usize[0];
let v22 = info_var.scalars_usize[1];
let v23 = info_var.scalars_usize[2];
let v24 = info_var.scalars_usize[3];
let v1698 = &shared_v25;
let v1699 = &shared_v29;
var<function> v1700_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v1700 = &v1700_store;
let v35 = u32(4);
let v37 = f32(0.0);
let v38 = vec4<f32>(v37);
let v43 = &(*v1700)[v3];
*v43 = v38;
let v48 = u32(1);
let v50 = &(*v1700)[v48];
*v50 = v38;
let v55 = u32(2);
let v57 = &(*v1700)[v55];
*v57 = v38;
let v62 = u32(3);
let v64 = &(*v1700)[v62];
*v64 = v38;
let v1707 = v1706[2];
let v66 = u32(v1707);
let v67 = v24 + v66;
let v69 = v67 + v48;
let v73 = &(*v1889)[v69];
let v74 = *v73;
let v75 = u32(v74);
let v1708 = v1706[0];
let v77 = u32(v1708);
let v78 = u32(64);
let v79 = v77 * v78;
let v1709 = v1706[1];
let v81 = u32(v1709);
let v83 = v81 * v78;
let v87 = &(*v1889)[v67];
let v88 = *v87;
let v89 = u32(v88);
let v90 = u32(16);
for(var v91: u32 = v89; v91 < v75; v91 += v90) {
let v1711 = v1710;
let v94 = u32(v1711);
let v96 = v94 / v90;
let v97 = v91 + v96;
let v99 = v94 % v90;
let v101 = v35 * v99;
let v102 = v79 + v101;
var<function> v1702_store: vec4<f32>;
let v1702 = &v1702_store;
*v1702 = v38;
let v106 = v97 < v75;
if v106 {
let v110 = &(*v1890)[v97];
let v111 = *v110;
let v112 = u32(v111);
let v113 = v112 / v23;
var<function> v1703_store: vec4<f32>;
let v1703 = &v1703_store;
*v1703 = v38;
let v119 = v102 < v21;
if v119 {
let v120 = v113 * v21;
let v121 = v120 + v102;
let v127 = &(*v1892)[v121];
let v128 = *v127;
let v129 = *v1703;
let v130 = vec4<f32>(v128, v129[1], v129[2], v129[3]);
*v1703 = v130;

}
let v132 = v102 + v48;
let v133 = v132 < v21;
if v133 {
let v134 = v113 * v21;
let v135 = v134 + v102;
let v137 = v135 + v48;
let v141 = &(*v1892)[v137];
let v142 = *v141;
let v143 = *v1703;
let v144 = vec4<f32>(v143[0], v142, v143[2], v143[3]);
*v1703 = v144;

}
let v146 = v102 + v55;
let v147 = v146 < v21;
if v147 {
let v148 = v113 * v21;
let v149 = v148 + v102;
let v151 = v149 + v55;
let v155 = &(*v1892)[v151];
let v156 = *v155;
let v157 = *v1703;
let v158 = vec4<f32>(v157[0], v157[1], v156, v157[3]);
*v1703 = v158;

}
let v160 = v102 + v62;
let v161 = v160 < v21;
if v161 {
let v162 = v113 * v21;
let v163 = v162 + v102;
let v165 = v163 + v62;
let v169 = &(*v1892)[v165];
let v170 = *v169;
let v171 = *v1703;
let v172 = vec4<f32>(v171[0], v171[1], v171[2], v170);
*v1703 = v172;

}
let v173 = *v1703;
*v1702 = v173;

}
let v177 = &(*v1698)[v94];
let v178 = *v1702;
*v177 = v178;
let v188 = v83 + v101;
var<function> v1704_store: vec4<f32>;
let v1704 = &v1704_store;
*v1704 = v38;
if v106 {
var<function> v1705_store: vec4<f32>;
let v1705 = &v1705_store;
*v1705 = v38;
let v198 = v188 < v22;
if v198 {
let v199 = v97 * v22;
let v200 = v199 + v188;
let v206 = &(*v1891)[v200];
let v207 = *v206;
let v208 = *v1705;
let v209 = vec4<f32>(v207, v208[1], v208[2], v208[3]);
*v1705 = v209;

}
let v211 = v188 + v48;
let v212 = v211 < v22;
if v212 {
let v213 = v97 * v22;
let v214 = v213 + v188;
let v216 = v214 + v48;
let v220 = &(*v1891)[v216];
let v221 = *v220;
let v222 = *v1705;
let v223 = vec4<f32>(v222[0], v221, v222[2], v222[3]);
*v1705 = v223;

}
let v225 = v188 + v55;
let v226 = v225 < v22;
if v226 {
let v227 = v97 * v22;
let v228 = v227 + v188;
let v230 = v228 + v55;
let v234 = &(*v1891)[v230];
let v235 = *v234;
let v236 = *v1705;
let v237 = vec4<f32>(v236[0], v236[1], v235, v236[3]);
*v1705 = v237;

}
let v239 = v188 + v62;
let v240 = v239 < v22;
if v240 {
let v241 = v97 * v22;
let v242 = v241 + v188;
let v244 = v242 + v62;
let v248 = &(*v1891)[v244];
let v249 = *v248;
let v250 = *v1705;
let v251 = vec4<f32>(v250[0], v250[1], v250[2], v249);
*v1705 = v251;

}
let v252 = *v1705;
*v1704 = v252;

}
let v256 = &(*v1699)[v94];
let v257 = *v1704;
*v256 = v257;
workgroupBarrier();
let v1714 = v1713[1];
let v259 = u32(v1714);
let v265 = &(*v1698)[v259];
let v266 = *v265;
let v1715 = v1713[0];
let v268 = u32(v1715);
let v274 = &(*v1699)[v268];
let v275 = *v274;
let v276 = v266[0];
let v277 = vec4<f32>(v276);
let v283 = *v43;
let v284 = fma(v277, v275, v283);
*v43 = v284;
let v290 = v266[1];
let v291 = vec4<f32>(v290);
let v297 = *v50;
let v298 = fma(v291, v275, v297);
*v50 = v298;
let v304 = v266[2];
let v305 = vec4<f32>(v304);
let v311 = *v57;
let v312 = fma(v305, v275, v311);
*v57 = v312;
let v318 = v266[3];
let v319 = vec4<f32>(v318);
let v325 = *v64;
let v326 = fma(v319, v275, v325);
*v64 = v326;
let v335 = v90 + v259;
let v339 = &(*v1698)[v335];
let v340 = *v339;
let v344 = v90 + v268;
let v348 = &(*v1699)[v344];
let v349 = *v348;
let v350 = v340[0];
let v351 = vec4<f32>(v350);
let v357 = *v43;
let v358 = fma(v351, v349, v357);
*v43 = v358;
let v364 = v340[1];
let v365 = vec4<f32>(v364);
let v371 = *v50;
let v372 = fma(v365, v349, v371);
*v50 = v372;
let v378 = v340[2];
let v379 = vec4<f32>(v378);
let v385 = *v57;
let v386 = fma(v379, v349, v385);
*v57 = v386;
let v392 = v340[3];
let v393 = vec4<f32>(v392);
let v399 = *v64;
let v400 = fma(v393, v349, v399);
*v64 = v400;
let v408 = u32(32);
let v409 = v408 + v259;
let v413 = &(*v1698)[v409];
let v414 = *v413;
let v418 = v408 + v268;
let v422 = &(*v1699)[v418];
let v423 = *v422;
let v424 = v414[0];
let v425 = vec4<f32>(v424);
let v431 = *v43;
let v432 = fma(v425, v423, v431);
*v43 = v432;
let v438 = v414[1];
let v439 = vec4<f32>(v438);
let v445 = *v50;
let v446 = fma(v439, v423, v445);
*v50 = v446;
let v452 = v414[2];
let v453 = vec4<f32>(v452);
let v459 = *v57;
let v460 = fma(v453, v423, v459);
*v57 = v460;
let v466 = v414[3];
let v467 = vec4<f32>(v466);
let v473 = *v64;
let v474 = fma(v467, v423, v473);
*v64 = v474;
let v482 = u32(48);
let v483 = v482 + v259;
let v487 = &(*v1698)[v483];
let v488 = *v487;
let v492 = v482 + v268;
let v496 = &(*v1699)[v492];
let v497 = *v496;
let v498 = v488[0];
let v499 = vec4<f32>(v498);
let v505 = *v43;
let v506 = fma(v499, v497, v505);
*v43 = v506;
let v512 = v488[1];
let v513 = vec4<f32>(v512);
let v519 = *v50;
let v520 = fma(v513, v497, v519);
*v50 = v520;
let v526 = v488[2];
let v527 = vec4<f32>(v526);
let v533 = *v57;
let v534 = fma(v527, v497, v533);
*v57 = v534;
let v540 = v488[3];
let v541 = vec4<f32>(v540);
let v547 = *v64;
let v548 = fma(v541, v497, v547);
*v64 = v548;
let v557 = v78 + v259;
let v561 = &(*v1698)[v557];
let v562 = *v561;
let v566 = v78 + v268;
let v570 = &(*v1699)[v566];
let v571 = *v570;
let v572 = v562[0];
let v573 = vec4<f32>(v572);
let v579 = *v43;
let v580 = fma(v573, v571, v579);
*v43 = v580;
let v586 = v562[1];
let v587 = vec4<f32>(v586);
let v593 = *v50;
let v594 = fma(v587, v571, v593);
*v50 = v594;
let v600 = v562[2];
let v601 = vec4<f32>(v600);
let v607 = *v57;
let v608 = fma(v601, v571, v607);
*v57 = v608;
let v614 = v562[3];
let v615 = vec4<f32>(v614);
let v621 = *v64;
let v622 = fma(v615, v571, v621);
*v64 = v622;
let v630 = u32(80);
let v631 = v630 + v259;
let v635 = &(*v1698)[v631];
let v636 = *v635;
let v640 = v630 + v268;
let v644 = &(*v1699)[v640];
let v645 = *v644;
let v646 = v636[0];
let v647 = vec4<f32>(v646);
let v653 = *v43;
let v654 = fma(v647, v645, v653);
*v43 = v654;
let v660 = v636[1];
let v661 = vec4<f32>(v660);
let v667 = *v50;
let v668 = fma(v661, v645, v667);
*v50 = v668;
let v674 = v636[2];
let v675 = vec4<f32>(v674);
let v681 = *v57;
let v682 = fma(v675, v645, v681);
*v57 = v682;
let v688 = v636[3];
let v689 = vec4<f32>(v688);
let v695 = *v64;
let v696 = fma(v689, v645, v695);
*v64 = v696;
let v704 = u32(96);
let v705 = v704 + v259;
let v709 = &(*v1698)[v705];
let v710 = *v709;
let v714 = v704 + v268;
let v718 = &(*v1699)[v714];
let v719 = *v718;
let v720 = v710[0];
let v721 = vec4<f32>(v720);
let v727 = *v43;
let v728 = fma(v721, v719, v727);
*v43 = v728;
let v734 = v710[1];
let v735 = vec4<f32>(v734);
let v741 = *v50;
let v742 = fma(v735, v719, v741);
*v50 = v742;
let v748 = v710[2];
let v749 = vec4<f32>(v748);
let v755 = *v57;
let v756 = fma(v749, v719, v755);
*v57 = v756;
let v762 = v710[3];
let v763 = vec4<f32>(v762);
let v769 = *v64;
let v770 = fma(v763, v719, v769);
*v64 = v770;
let v778 = u32(112);
let v779 = v778 + v259;
let v783 = &(*v1698)[v779];
let v784 = *v783;
let v788 = v778 + v268;
let v792 = &(*v1699)[v788];
let v793 = *v792;
let v794 = v784[0];
let v795 = vec4<f32>(v794);
let v801 = *v43;
let v802 = fma(v795, v793, v801);
*v43 = v802;
let v808 = v784[1];
let v809 = vec4<f32>(v808);
let v815 = *v50;
let v816 = fma(v809, v793, v815);
*v50 = v816;
let v822 = v784[2];
let v823 = vec4<f32>(v822);
let v829 = *v57;
let v830 = fma(v823, v793, v829);
*v57 = v830;
let v836 = v784[3];
let v837 = vec4<f32>(v836);
let v843 = *v64;
let v844 = fma(v837, v793, v843);
*v64 = v844;
let v852 = u32(128);
let v853 = v852 + v259;
let v857 = &(*v1698)[v853];
let v858 = *v857;
let v862 = v852 + v268;
let v866 = &(*v1699)[v862];
let v867 = *v866;
let v868 = v858[0];
let v869 = vec4<f32>(v868);
let v875 = *v43;
let v876 = fma(v869, v867, v875);
*v43 = v876;
let v882 = v858[1];
let v883 = vec4<f32>(v882);
let v889 = *v50;
let v890 = fma(v883, v867, v889);
*v50 = v890;
let v896 = v858[2];
let v897 = vec4<f32>(v896);
let v903 = *v57;
let v904 = fma(v897, v867, v903);
*v57 = v904;
let v910 = v858[3];
let v911 = vec4<f32>(v910);
let v917 = *v64;
let v918 = fma(v911, v867, v917);
*v64 = v918;
let v926 = u32(144);
let v927 = v926 + v259;
let v931 = &(*v1698)[v927];
let v932 = *v931;
let v936 = v926 + v268;
let v940 = &(*v1699)[v936];
let v941 = *v940;
let v942 = v932[0];
let v943 = vec4<f32>(v942);
let v949 = *v43;
let v950 = fma(v943, v941, v949);
*v43 = v950;
let v956 = v932[1];
let v957 = vec4<f32>(v956);
let v963 = *v50;
let v964 = fma(v957, v941, v963);
*v50 = v964;
let v970 = v932[2];
let v971 = vec4<f32>(v970);
let v977 = *v57;
let v978 = fma(v971, v941, v977);
*v57 = v978;
let v984 = v932[3];
let v985 = vec4<f32>(v984);
let v991 = *v64;
let v992 = fma(v985, v941, v991);
*v64 = v992;
let v1000 = u32(160);
let v1001 = v1000 + v259;
let v1005 = &(*v1698)[v1001];
let v1006 = *v1005;
let v1010 = v1000 + v268;
let v1014 = &(*v1699)[v1010];
let v1015 = *v1014;
let v1016 = v1006[0];
let v1017 = vec4<f32>(v1016);
let v1023 = *v43;
let v1024 = fma(v1017, v1015, v1023);
*v43 = v1024;
let v1030 = v1006[1];
let v1031 = vec4<f32>(v1030);
let v1037 = *v50;
let v1038 = fma(v1031, v1015, v1037);
*v50 = v1038;
let v1044 = v1006[2];
let v1045 = vec4<f32>(v1044);
let v1051 = *v57;
let v1052 = fma(v1045, v1015, v1051);
*v57 = v1052;
let v1058 = v1006[3];
let v1059 = vec4<f32>(v1058);
let v1065 = *v64;
let v1066 = fma(v1059, v1015, v1065);
*v64 = v1066;
let v1074 = u32(176);
let v1075 = v1074 + v259;
let v1079 = &(*v1698)[v1075];
let v1080 = *v1079;
let v1084 = v1074 + v268;
let v1088 = &(*v1699)[v1084];
let v1089 = *v1088;
let v1090 = v1080[0];
let v1091 = vec4<f32>(v1090);
let v1097 = *v43;
let v1098 = fma(v1091, v1089, v1097);
*v43 = v1098;
let v1104 = v1080[1];
let v1105 = vec4<f32>(v1104);
let v1111 = *v50;
let v1112 = fma(v1105, v1089, v1111);
*v50 = v1112;
let v1118 = v1080[2];
let v1119 = vec4<f32>(v1118);
let v1125 = *v57;
let v1126 = fma(v1119, v1089, v1125);
*v57 = v1126;
let v1132 = v1080[3];
let v1133 = vec4<f32>(v1132);
let v1139 = *v64;
let v1140 = fma(v1133, v1089, v1139);
*v64 = v1140;
let v1148 = u32(192);
let v1149 = v1148 + v259;
let v1153 = &(*v1698)[v1149];
let v1154 = *v1153;
let v1158 = v1148 + v268;
let v1162 = &(*v1699)[v1158];
let v1163 = *v1162;
let v1164 = v1154[0];
let v1165 = vec4<f32>(v1164);
let v1171 = *v43;
let v1172 = fma(v1165, v1163, v1171);
*v43 = v1172;
let v1178 = v1154[1];
let v1179 = vec4<f32>(v1178);
let v1185 = *v50;
let v1186 = fma(v1179, v1163, v1185);
*v50 = v1186;
let v1192 = v1154[2];
let v1193 = vec4<f32>(v1192);
let v1199 = *v57;
let v1200 = fma(v1193, v1163, v1199);
*v57 = v1200;
let v1206 = v1154[3];
let v1207 = vec4<f32>(v1206);
let v1213 = *v64;
let v1214 = fma(v1207, v1163, v1213);
*v64 = v1214;
let v1222 = u32(208);
let v1223 = v1222 + v259;
let v1227 = &(*v1698)[v1223];
let v1228 = *v1227;
let v1232 = v1222 + v268;
let v1236 = &(*v1699)[v1232];
let v1237 = *v1236;
let v1238 = v1228[0];
let v1239 = vec4<f32>(v1238);
let v1245 = *v43;
let v1246 = fma(v1239, v1237, v1245);
*v43 = v1246;
let v1252 = v1228[1];
let v1253 = vec4<f32>(v1252);
let v1259 = *v50;
let v1260 = fma(v1253, v1237, v1259);
*v50 = v1260;
let v1266 = v1228[2];
let v1267 = vec4<f32>(v1266);
let v1273 = *v57;
let v1274 = fma(v1267, v1237, v1273);
*v57 = v1274;
let v1280 = v1228[3];
let v1281 = vec4<f32>(v1280);
let v1287 = *v64;
let v1288 = fma(v1281, v1237, v1287);
*v64 = v1288;
let v1296 = u32(224);
let v1297 = v1296 + v259;
let v1301 = &(*v1698)[v1297];
let v1302 = *v1301;
let v1306 = v1296 + v268;
let v1310 = &(*v1699)[v1306];
let v1311 = *v1310;
let v1312 = v1302[0];
let v1313 = vec4<f32>(v1312);
let v1319 = *v43;
let v1320 = fma(v1313, v1311, v1319);
*v43 = v1320;
let v1326 = v1302[1];
let v1327 = vec4<f32>(v1326);
let v1333 = *v50;
let v1334 = fma(v1327, v1311, v1333);
*v50 = v1334;
let v1340 = v1302[2];
let v1341 = vec4<f32>(v1340);
let v1347 = *v57;
let v1348 = fma(v1341, v1311, v1347);
*v57 = v1348;
let v1354 = v1302[3];
let v1355 = vec4<f32>(v1354);
let v1361 = *v64;
let v1362 = fma(v1355, v1311, v1361);
*v64 = v1362;
let v1370 = u32(240);
let v1371 = v1370 + v259;
let v1375 = &(*v1698)[v1371];
let v1376 = *v1375;
let v1380 = v1370 + v268;
let v1384 = &(*v1699)[v1380];
let v1385 = *v1384;
let v1386 = v1376[0];
let v1387 = vec4<f32>(v1386);
let v1393 = *v43;
let v1394 = fma(v1387, v1385, v1393);
*v43 = v1394;
let v1400 = v1376[1];
let v1401 = vec4<f32>(v1400);
let v1407 = *v50;
let v1408 = fma(v1401, v1385, v1407);
*v50 = v1408;
let v1414 = v1376[2];
let v1415 = vec4<f32>(v1414);
let v1421 = *v57;
let v1422 = fma(v1415, v1385, v1421);
*v57 = v1422;
let v1428 = v1376[3];
let v1429 = vec4<f32>(v1428);
let v1435 = *v64;
let v1436 = fma(v1429, v1385, v1435);
*v64 = v1436;
workgroupBarrier();

}
let v1746 = v1713[1];
let v1443 = u32(v1746);
let v1445 = v35 * v1443;
let v1446 = v79 + v1445;
let v1747 = v1713[0];
let v1448 = u32(v1747);
let v1450 = v35 * v1448;
let v1451 = v83 + v1450;
let v1454 = v1446 < v21;
if v1454 {
let v1457 = v66 * v21;
let v1458 = v1457 + v1446;
let v1461 = v1458 * v22;
let v1467 = *v43;
let v1470 = v1451 < v22;
if v1470 {
let v1471 = v1467[0];
let v1472 = v1461 + v1451;
let v1478 = &(*v1888)[v1472];
*v1478 = v1471;

}
let v1480 = v1451 + v48;
let v1481 = v1480 < v22;
if v1481 {
let v1482 = v1467[1];
let v1483 = v1461 + v1451;
let v1485 = v1483 + v48;
let v1489 = &(*v1888)[v1485];
*v1489 = v1482;

}
let v1491 = v1451 + v55;
let v1492 = v1491 < v22;
if v1492 {
let v1493 = v1467[2];
let v1494 = v1461 + v1451;
let v1496 = v1494 + v55;
let v1500 = &(*v1888)[v1496];
*v1500 = v1493;

}
let v1502 = v1451 + v62;
let v1503 = v1502 < v22;
if v1503 {
let v1504 = v1467[3];
let v1505 = v1461 + v1451;
let v1507 = v1505 + v62;
let v1511 = &(*v1888)[v1507];
*v1511 = v1504;

}

}
let v1513 = v1446 + v48;
let v1514 = v1513 < v21;
if v1514 {
let v1517 = v66 * v21;
let v1518 = v1517 + v1446;
let v1520 = v1518 + v48;
let v1521 = v1520 * v22;
let v1527 = *v50;
let v1530 = v1451 < v22;
if v1530 {
let v1531 = v1527[0];
let v1532 = v1521 + v1451;
let v1538 = &(*v1888)[v1532];
*v1538 = v1531;

}
let v1540 = v1451 + v48;
let v1541 = v1540 < v22;
if v1541 {
let v1542 = v1527[1];
let v1543 = v1521 + v1451;
let v1545 = v1543 + v48;
let v1549 = &(*v1888)[v1545];
*v1549 = v1542;

}
let v1551 = v1451 + v55;
let v1552 = v1551 < v22;
if v1552 {
let v1553 = v1527[2];
let v1554 = v1521 + v1451;
let v1556 = v1554 + v55;
let v1560 = &(*v1888)[v1556];
*v1560 = v1553;

}
let v1562 = v1451 + v62;
let v1563 = v1562 < v22;
if v1563 {
let v1564 = v1527[3];
let v1565 = v1521 + v1451;
let v1567 = v1565 + v62;
let v1571 = &(*v1888)[v1567];
*v1571 = v1564;

}

}
let v1573 = v1446 + v55;
let v1574 = v1573 < v21;
if v1574 {
let v1577 = v66 * v21;
let v1578 = v1577 + v1446;
let v1580 = v1578 + v55;
let v1581 = v1580 * v22;
let v1587 = *v57;
let v1590 = v1451 < v22;
if v1590 {
let v1591 = v1587[0];
let v1592 = v1581 + v1451;
let v1598 = &(*v1888)[v1592];
*v1598 = v1591;

}
let v1600 = v1451 + v48;
let v1601 = v1600 < v22;
if v1601 {
let v1602 = v1587[1];
let v1603 = v1581 + v1451;
let v1605 = v1603 + v48;
let v1609 = &(*v1888)[v1605];
*v1609 = v1602;

}
let v1611 = v1451 + v55;
let v1612 = v1611 < v22;
if v1612 {
let v1613 = v1587[2];
let v1614 = v1581 + v1451;
let v1616 = v1614 + v55;
let v1620 = &(*v1888)[v1616];
*v1620 = v1613;

}
let v1622 = v1451 + v62;
let v1623 = v1622 < v22;
if v1623 {
let v1624 = v1587[3];
let v1625 = v1581 + v1451;
let v1627 = v1625 + v62;
let v1631 = &(*v1888)[v1627];
*v1631 = v1624;

}

}
let v1633 = v1446 + v62;
let v1634 = v1633 < v21;
if v1634 {
let v1637 = v66 * v21;
let v1638 = v1637 + v1446;
let v1640 = v1638 + v62;
let v1641 = v1640 * v22;
let v1647 = *v64;
let v1650 = v1451 < v22;
if v1650 {
let v1651 = v1647[0];
let v1652 = v1641 + v1451;
let v1658 = &(*v1888)[v1652];
*v1658 = v1651;

}
let v1660 = v1451 + v48;
let v1661 = v1660 < v22;
if v1661 {
let v1662 = v1647[1];
let v1663 = v1641 + v1451;
let v1665 = v1663 + v48;
let v1669 = &(*v1888)[v1665];
*v1669 = v1662;

}
let v1671 = v1451 + v55;
let v1672 = v1671 < v22;
if v1672 {
let v1673 = v1647[2];
let v1674 = v1641 + v1451;
let v1676 = v1674 + v55;
let v1680 = &(*v1888)[v1676];
*v1680 = v1673;

}
let v1682 = v1451 + v62;
let v1683 = v1682 < v22;
if v1683 {
let v1684 = v1647[3];
let v1685 = v1641 + v1451;
let v1687 = v1685 + v62;
let v1691 = &(*v1888)[v1687];
*v1691 = v1684;

}

}
return;

}
