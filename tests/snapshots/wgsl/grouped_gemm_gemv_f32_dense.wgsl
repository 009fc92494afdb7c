var<workgroup> shared_v21: array<vec4<f32>, 20>;
var<workgroup> shared_v25: array<vec4<f32>, 320>;
@group(0) @binding(2) var<storage, read_write> v9: array<f32>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 8>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn grouped_gemm_gemv_f32_dense(@builtin(workgroup_id) v852: vec3<u32>, @builtin(local_invocation_index) v855: u32, @builtin(local_invocation_id) v865: vec3<u32>) {
let v953 = &v9;
let v954 = &v5;
let v955 = &v1;
let v3 = u32(0);
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v16 = info_var.scalars_usize[3];
let v19 = info_var.scalars_usize[6];
let v20 = info_var.scalars_usize[7];
let v837 = &shared_v21;
let v838 = &shared_v25;
var<function> v839_store: array<f32, 4>= array<f32, 4>();
let v839 = &v839_store;
let v31 = u32(4);
let v37 = &(*v839)[v3];
let v38 = f32(0.0);
*v37 = v38;
let v41 = u32(1);
let v43 = &(*v839)[v41];
*v43 = v38;
let v47 = u32(2);
let v49 = &(*v839)[v47];
*v49 = v38;
let v53 = u32(3);
let v55 = &(*v839)[v53];
*v55 = v38;
let v853 = v852[0];
let v58 = u32(v853);
let v60 = v58 * v31;
let v62 = v60 + v31;
let v63 = min(v62, v16);
let v854 = v852[1];
let v65 = u32(v854);
let v66 = u32(64);
let v67 = v65 * v66;
let v69 = v3 >= v19;
let v71 = v3 < v20;
let v72 = v69 && v71;
if v72 {
let v74 = u32(16);
for(var v75: u32 = v3; v75 < v14; v75 += v74) {
let v856 = v855;
let v78 = u32(v856);
let v82 = v78 < v74;
if v82 {
let v84 = v78 / v31;
let v86 = v78 % v31;
let v87 = v60 + v84;
let v89 = v63 - v41;
let v90 = min(v87, v89);
let v92 = v31 * v86;
let v93 = v75 + v92;
let v95 = vec4<f32>(v38);
var<function> v841_store: vec4<f32>;
let v841 = &v841_store;
*v841 = v95;
let v97 = v93 < v14;
if v97 {
let v98 = v90 * v14;
let v99 = v98 + v93;
let v101 = v99 / v31;
let v105 = &(*v955)[v101];
let v106 = *v105;
*v841 = v106;

}
let v107 = u32(5);
let v108 = v84 * v107;
let v109 = v108 + v86;
let v113 = &(*v837)[v109];
let v114 = *v841;
*v113 = v114;

}
let v116 = v3 - v19;
let v117 = v116 * v13;
let v124 = u32(256);
let v125 = v78 < v124;
if v125 {
let v127 = v78 / v31;
let v129 = v78 % v31;
let v131 = v127 / v66;
let v133 = v127 % v66;
let v134 = v67 + v133;
let v136 = v13 - v41;
let v137 = min(v134, v136);
let v138 = v131 * v13;
let v139 = v117 + v138;
let v140 = v139 + v137;
let v142 = v31 * v129;
let v143 = v75 + v142;
let v145 = vec4<f32>(v38);
var<function> v842_store: vec4<f32>;
let v842 = &v842_store;
*v842 = v145;
let v147 = v143 < v14;
if v147 {
let v148 = v140 * v14;
let v149 = v148 + v143;
let v151 = v149 / v31;
let v155 = &(*v954)[v151];
let v156 = *v155;
*v842 = v156;

}
let v157 = u32(5);
let v158 = v127 * v157;
let v159 = v158 + v129;
let v163 = &(*v838)[v159];
let v164 = *v842;
*v163 = v164;

}
let v168 = v78 + v66;
let v170 = v168 < v124;
if v170 {
let v172 = v168 / v31;
let v174 = v168 % v31;
let v176 = v172 / v66;
let v178 = v172 % v66;
let v179 = v67 + v178;
let v181 = v13 - v41;
let v182 = min(v179, v181);
let v183 = v176 * v13;
let v184 = v117 + v183;
let v185 = v184 + v182;
let v187 = v31 * v174;
let v188 = v75 + v187;
let v190 = vec4<f32>(v38);
var<function> v843_store: vec4<f32>;
let v843 = &v843_store;
*v843 = v190;
let v192 = v188 < v14;
if v192 {
let v193 = v185 * v14;
let v194 = v193 + v188;
let v196 = v194 / v31;
let v200 = &(*v954)[v196];
let v201 = *v200;
*v843 = v201;

}
let v202 = u32(5);
let v203 = v172 * v202;
let v204 = v203 + v174;
let v208 = &(*v838)[v204];
let v209 = *v843;
*v208 = v209;

}
let v212 = u32(128);
let v213 = v78 + v212;
let v215 = v213 < v124;
if v215 {
let v217 = v213 / v31;
let v219 = v213 % v31;
let v221 = v217 / v66;
let v223 = v217 % v66;
let v224 = v67 + v223;
let v226 = v13 - v41;
let v227 = min(v224, v226);
let v228 = v221 * v13;
let v229 = v117 + v228;
let v230 = v229 + v227;
let v232 = v31 * v219;
let v233 = v75 + v232;
let v235 = vec4<f32>(v38);
var<function> v844_store: vec4<f32>;
let v844 = &v844_store;
*v844 = v235;
let v237 = v233 < v14;
if v237 {
let v238 = v230 * v14;
let v239 = v238 + v233;
let v241 = v239 / v31;
let v245 = &(*v954)[v241];
let v246 = *v245;
*v844 = v246;

}
let v247 = u32(5);
let v248 = v217 * v247;
let v249 = v248 + v219;
let v253 = &(*v838)[v249];
let v254 = *v844;
*v253 = v254;

}
let v257 = u32(192);
let v258 = v78 + v257;
let v260 = v258 < v124;
if v260 {
let v262 = v258 / v31;
let v264 = v258 % v31;
let v266 = v262 / v66;
let v268 = v262 % v66;
let v269 = v67 + v268;
let v271 = v13 - v41;
let v272 = min(v269, v271);
let v273 = v266 * v13;
let v274 = v117 + v273;
let v275 = v274 + v272;
let v277 = v31 * v264;
let v278 = v75 + v277;
let v280 = vec4<f32>(v38);
var<function> v845_store: vec4<f32>;
let v845 = &v845_store;
*v845 = v280;
let v282 = v278 < v14;
if v282 {
let v283 = v275 * v14;
let v284 = v283 + v278;
let v286 = v284 / v31;
let v290 = &(*v954)[v286];
let v291 = *v290;
*v845 = v291;

}
let v292 = u32(5);
let v293 = v262 * v292;
let v294 = v293 + v264;
let v298 = &(*v838)[v294];
let v299 = *v845;
*v298 = v299;

}
workgroupBarrier();
for(var v303: u32 = v3; v303 < v31; v303 += v41) {
var<function> v847_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v847 = &v847_store;
let v313 = u32(5);
let v319 = &(*v837)[v303];
let v320 = *v319;
let v325 = &(*v847)[v3];
*v325 = v320;
let v332 = v313 + v303;
let v336 = &(*v837)[v332];
let v337 = *v336;
let v342 = &(*v847)[v41];
*v342 = v337;
let v938 = u32(10);
let v349 = v938 + v303;
let v353 = &(*v837)[v349];
let v354 = *v353;
let v359 = &(*v847)[v47];
*v359 = v354;
let v934 = u32(15);
let v366 = v934 + v303;
let v370 = &(*v837)[v366];
let v371 = *v370;
let v376 = &(*v847)[v53];
*v376 = v371;
let v866 = v865[0];
let v378 = u32(v866);
let v382 = v378 * v313;
let v383 = v382 + v303;
let v387 = &(*v838)[v383];
let v388 = *v387;
let v394 = *v37;
let v400 = *v325;
let v401 = v400[0];
let v402 = v388[0];
let v403 = fma(v401, v402, v394);
*v37 = v403;
let v414 = *v37;
let v420 = *v325;
let v421 = v420[1];
let v422 = v388[1];
let v423 = fma(v421, v422, v414);
*v37 = v423;
let v434 = *v37;
let v440 = *v325;
let v441 = v440[2];
let v442 = v388[2];
let v443 = fma(v441, v442, v434);
*v37 = v443;
let v454 = *v37;
let v460 = *v325;
let v461 = v460[3];
let v462 = v388[3];
let v463 = fma(v461, v462, v454);
*v37 = v463;
let v474 = *v43;
let v480 = *v342;
let v481 = v480[0];
let v483 = fma(v481, v402, v474);
*v43 = v483;
let v494 = *v43;
let v500 = *v342;
let v501 = v500[1];
let v503 = fma(v501, v422, v494);
*v43 = v503;
let v514 = *v43;
let v520 = *v342;
let v521 = v520[2];
let v523 = fma(v521, v442, v514);
*v43 = v523;
let v534 = *v43;
let v540 = *v342;
let v541 = v540[3];
let v543 = fma(v541, v462, v534);
*v43 = v543;
let v554 = *v49;
let v560 = *v359;
let v561 = v560[0];
let v563 = fma(v561, v402, v554);
*v49 = v563;
let v574 = *v49;
let v580 = *v359;
let v581 = v580[1];
let v583 = fma(v581, v422, v574);
*v49 = v583;
let v594 = *v49;
let v600 = *v359;
let v601 = v600[2];
let v603 = fma(v601, v442, v594);
*v49 = v603;
let v614 = *v49;
let v620 = *v359;
let v621 = v620[3];
let v623 = fma(v621, v462, v614);
*v49 = v623;
let v634 = *v55;
let v640 = *v376;
let v641 = v640[0];
let v643 = fma(v641, v402, v634);
*v55 = v643;
let v654 = *v55;
let v660 = *v376;
let v661 = v660[1];
let v663 = fma(v661, v422, v654);
*v55 = v663;
let v674 = *v55;
let v680 = *v376;
let v681 = v680[2];
let v683 = fma(v681, v442, v674);
*v55 = v683;
let v694 = *v55;
let v700 = *v376;
let v701 = v700[3];
let v703 = fma(v701, v462, v694);
*v55 = v703;

}
workgroupBarrier();

}
let v868 = v865[0];
let v719 = u32(v868);
let v720 = v67 + v719;
let v723 = v60 < v63;
let v724 = v720 < v13;
let v725 = v723 && v724;
if v725 {
let v731 = *v37;
var<function> v848_store: f32;
let v848 = &v848_store;
*v848 = v731;
let v736 = *v848;
let v737 = v60 * v13;
let v738 = v737 + v720;
let v742 = &(*v953)[v738];
*v742 = v736;

}
let v747 = v60 + v41;
let v753 = v747 < v63;
let v755 = v753 && v724;
if v755 {
let v761 = *v43;
var<function> v849_store: f32;
let v849 = &v849_store;
*v849 = v761;
let v766 = *v849;
let v767 = v747 * v13;
let v768 = v767 + v720;
let v772 = &(*v953)[v768];
*v772 = v766;

}
let v777 = v60 + v47;
let v783 = v777 < v63;
let v785 = v783 && v724;
if v785 {
let v791 = *v49;
var<function> v850_store: f32;
let v850 = &v850_store;
*v850 = v791;
let v796 = *v850;
let v797 = v777 * v13;
let v798 = v797 + v720;
let v802 = &(*v953)[v798];
*v802 = v796;

}
let v807 = v60 + v53;
let v813 = v807 < v63;
let v815 = v813 && v724;
if v815 {
let v821 = *v55;
var<function> v851_store: f32;
let v851 = &v851_store;
*v851 = v821;
let v826 = *v851;
let v827 = v807 * v13;
let v828 = v827 + v720;
let v832 = &(*v953)[v828];
*v832 = v826;

}

}
return;

}
